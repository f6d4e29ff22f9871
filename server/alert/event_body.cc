#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "convert/convert.h"
#include "convert/finding_text.h"
#include "server/alert/episodes.h"

namespace weft {
namespace {

namespace pb = google::protobuf;

constexpr size_t kMaxSummaryCodePoints = 1024;

std::string CutCodePoints(const std::string& text, size_t limit) {
  size_t points = 0, end = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & '\xc0') == '\x80') continue;
    if (points == limit - 1) end = i;
    if (++points > limit) return text.substr(0, end) + "\u2026";
  }
  return text;
}

// JSON cannot be made of invalid UTF-8, and one bad hostname must not cost a page.
void MakeValidUtf8(pb::Message& message);

void MakeFieldValid(pb::Message& message, const pb::FieldDescriptor* field) {
  const pb::Reflection* reflection = message.GetReflection();
  const bool text = field->type() == pb::FieldDescriptor::TYPE_STRING;
  const bool nested = field->type() == pb::FieldDescriptor::TYPE_MESSAGE;
  if (!field->is_repeated()) {
    if (text) reflection->SetString(&message, field, ToValidUtf8(reflection->GetString(message, field)));
    if (nested) MakeValidUtf8(*reflection->MutableMessage(&message, field));
    return;
  }
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    if (text)
      reflection->SetRepeatedString(&message, field, i,
                                    ToValidUtf8(reflection->GetRepeatedString(message, field, i)));
    if (nested) MakeValidUtf8(*reflection->MutableRepeatedMessage(&message, field, i));
  }
}

void MakeValidUtf8(pb::Message& message) {
  std::vector<const pb::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) MakeFieldValid(message, field);
}

std::string HostnameOf(const std::string& node_id, const NodeLookup& nodes) {
  const Node* node = nodes ? nodes(node_id) : nullptr;
  return node == nullptr ? "" : node->hostname;
}

void FillFinding(const Episode& episode, const NodeLookup& nodes, v1::Finding* out) {
  ToProto(episode, out);
  for (const std::string& id : episode.finding.node_ids) out->add_hostnames(HostnameOf(id, nodes));
  for (v1::Evidence& evidence : *out->mutable_evidence())
    evidence.set_partner_hostname(HostnameOf(evidence.partner_node_id(), nodes));
  out->set_summary(CutCodePoints(ToValidUtf8(SummaryWithSubject(*out)), kMaxSummaryCodePoints));
}

std::string Link(absl::string_view base, const std::string& episode_id) {
  if (base.empty()) return "";
  return absl::StrCat(absl::StripSuffix(base, "/"), "/findings/", episode_id);
}

}  // namespace

std::string EventBody(const Episode& episode, DeliveryAction action, uint32_t sequence,
                      const NodeLookup& nodes, absl::string_view external_url, absl::string_view note) {
  const bool trigger = action == DeliveryAction::kTrigger;
  v1::WebhookEvent event;
  event.set_type(trigger ? "finding.opened" : "finding.resolved");
  ToProto(trigger ? episode.open_time : episode.resolve_time, event.mutable_timestamp());
  event.set_dedup_key(episode.id);
  event.set_sequence(sequence);
  FillFinding(episode, nodes, event.mutable_data());
  event.set_url(Link(external_url, episode.id));
  event.set_note(std::string(note));
  MakeValidUtf8(event);
  std::string json;
  // Only times out of range and invalid UTF-8 cannot be printed; neither is possible here.
  if (!pb::util::MessageToJsonString(event, &json).ok()) std::abort();
  return json;
}

}  // namespace weft
