// YAML configuration into protobuf messages: one schema for files, checks and documentation.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace weft {

// What a number of 0 means in a file where the message cannot tell it from one that is not given.
enum class YamlZero { kIsANumber, kIsRefused };

// Fills `message` from YAML text, keys in snake_case as in the .proto file; durations as "15s", "5m", "2h30m"
// or "30d"; names of enumerations in lower case and without what they share, as "all_gather"; unknown keys,
// wrong types, repeated keys and a second document are refused. All problems come at once, each with
// `name`:line. Any thread.
absl::Status ParseYaml(absl::string_view text, absl::string_view name, google::protobuf::Message* message,
                       YamlZero zero = YamlZero::kIsANumber);

}  // namespace weft
