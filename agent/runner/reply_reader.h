// What a probe process says on its reply pipe, checked.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/framing.h"
#include "weft/v1/probe.pb.h"

namespace weft {

// One thread. Trusts nothing: the bytes may come from a process with a broken driver in it.
class ReplyReader {
 public:
  // `on_rendezvous` is called at most once, from Append.
  explicit ReplyReader(std::function<void(std::string)> on_rendezvous)
      : on_rendezvous_(std::move(on_rendezvous)) {}

  // kInvalidArgument, saying what is wrong, when the probe does not keep to the protocol; nothing more may
  // be appended then. Whatever follows a result is refused.
  absl::Status Append(absl::string_view bytes);

  // Once the probe has answered.
  const std::optional<v1::Result>& result() const { return result_; }
  // The last phase that the probe said it began; empty before the first.
  const std::string& phase() const { return phase_; }
  // True inside an unfinished frame.
  bool mid_frame() const { return decoder_.pending_bytes() > 0; }

 private:
  absl::Status Take(const v1::ProbeReply& reply);
  absl::Status TakeRendezvous(const std::string& rendezvous);
  absl::Status TakeResult(const v1::Result& result);

  const std::function<void(std::string)> on_rendezvous_;
  FrameDecoder decoder_;
  size_t frames_ = 0;
  bool has_rendezvous_ = false;
  std::string phase_;
  std::optional<v1::Result> result_;
};

}  // namespace weft
