#include "convert/yaml.h"

#include <google/protobuf/descriptor.pb.h>
#include <yaml-cpp/yaml.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "convert/convert.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Walks YAML and message together and gathers what does not fit.
class Reader {
 public:
  Reader(absl::string_view name, YamlZero zero) : name_(name), zero_(zero) {}

  void ReadMessage(const YAML::Node& node, Message* message);
  absl::Status status() const {
    if (problems_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(problems_, "\n"));
  }
  void Problem(const YAML::Mark& mark, absl::string_view text) {
    problems_.push_back(absl::StrCat(name_, ":", mark.line + 1, ": ", text));
  }

 private:
  void ReadField(const YAML::Node& node, const FieldDescriptor* field, Message* message);
  void ReadMap(const YAML::Node& node, const FieldDescriptor* field, Message* message);
  void ReadScalar(const YAML::Node& node, const FieldDescriptor* field, Message* message);
  void ReadDuration(const YAML::Node& node, const FieldDescriptor* field, Message* message);

  const std::string name_;
  const YamlZero zero_;
  std::vector<std::string> problems_;
};

// "all_gather" for NCCL_COLLECTIVE_ALL_GATHER: without the words that all values share, which buf's style
// makes those of the first value, "…_UNSPECIFIED".
std::string ShortName(const EnumValueDescriptor* value) {
  absl::string_view prefix = value->type()->value(0)->name();
  absl::ConsumeSuffix(&prefix, "UNSPECIFIED");
  absl::string_view name = value->name();
  absl::ConsumePrefix(&name, prefix);
  return absl::AsciiStrToLower(name);
}

const EnumValueDescriptor* FindValue(const EnumDescriptor* type, absl::string_view name) {
  for (int i = 1; i < type->value_count(); ++i)
    if (ShortName(type->value(i)) == name) return type->value(i);
  return nullptr;
}

std::string Choices(const EnumDescriptor* type) {
  std::vector<std::string> names;
  for (int i = 1; i < type->value_count(); ++i) names.push_back(ShortName(type->value(i)));
  return absl::StrCat("one of ", absl::StrJoin(names, ", "));
}

std::string Kind(const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    case FieldDescriptor::CPPTYPE_ENUM:
      return Choices(field->enum_type());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "a mapping";
    default:
      return "a number";
  }
}

bool ParseDuration(std::string text, absl::Duration* out) {
  int64_t days = 0;
  const size_t d = text.find('d');
  if (d != std::string::npos) {
    if (!absl::SimpleAtoi(text.substr(0, d), &days)) return false;
    text = text.substr(d + 1);
  }
  absl::Duration rest;
  if (!text.empty() && !absl::ParseDuration(text, &rest)) return false;
  *out = absl::Hours(24) * days + rest;
  return true;
}

// The key that was already given where only one of several may be; empty if there is none.
std::string OtherOfOneof(const Message& message, const FieldDescriptor* field) {
  const google::protobuf::OneofDescriptor* oneof = field->real_containing_oneof();
  if (oneof == nullptr) return "";
  const FieldDescriptor* other = message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
  return other == nullptr ? "" : std::string(other->name());
}

void Reader::ReadMessage(const YAML::Node& node, Message* message) {
  if (node.IsNull()) return;
  if (!node.IsMap()) return Problem(node.Mark(), "expected a mapping of keys to values");
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(key);
    if (field == nullptr) {
      std::vector<std::string> known;
      for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
        known.push_back(message->GetDescriptor()->field(i)->name());
      }
      Problem(entry.first.Mark(),
              absl::StrCat("unknown key \"", key, "\"; known: ", absl::StrJoin(known, ", ")));
    } else if (!seen.insert(key).second) {
      Problem(entry.first.Mark(), absl::StrCat("key \"", key, "\" appears twice"));
    } else if (const std::string other = OtherOfOneof(*message, field); !other.empty()) {
      Problem(entry.first.Mark(), absl::StrCat("give either \"", other, "\" or \"", key, "\", not both"));
    } else if (field->is_map()) {
      ReadMap(entry.second, field, message);
    } else if (field->is_repeated()) {
      if (!entry.second.IsSequence()) {
        Problem(entry.second.Mark(), absl::StrCat(key, " must be a list"));
        continue;
      }
      for (const auto& item : entry.second) ReadField(item, field, message);
    } else {
      ReadField(entry.second, field, message);
    }
  }
}

void Reader::ReadField(const YAML::Node& node, const FieldDescriptor* field, Message* message) {
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return ReadScalar(node, field, message);
  if (field->message_type()->full_name() == "google.protobuf.Duration")
    return ReadDuration(node, field, message);
  const Reflection* reflection = message->GetReflection();
  ReadMessage(node, field->is_repeated() ? reflection->AddMessage(message, field)
                                         : reflection->MutableMessage(message, field));
}

void Reader::ReadMap(const YAML::Node& node, const FieldDescriptor* field, Message* message) {
  if (!node.IsMap()) return Problem(node.Mark(), absl::StrCat(field->name(), " must be a mapping"));
  const FieldDescriptor* key = field->message_type()->map_key();
  const FieldDescriptor* value = field->message_type()->map_value();
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!seen.insert(entry.first.Scalar()).second) {
      Problem(entry.first.Mark(),
              absl::StrCat(field->name(), ": key \"", entry.first.Scalar(), "\" appears twice"));
      continue;
    }
    Message* item = message->GetReflection()->AddMessage(message, field);
    ReadScalar(entry.first, key, item);
    ReadScalar(entry.second, value, item);
  }
}

void Reader::ReadDuration(const YAML::Node& node, const FieldDescriptor* field, Message* message) {
  absl::Duration duration;
  if (!node.IsScalar() || !ParseDuration(node.Scalar(), &duration)) {
    return Problem(node.Mark(), absl::StrCat(field->name(), " must be a duration like 15s, 5m, 2h or 30d"));
  }
  const Reflection* reflection = message->GetReflection();
  Message* to = field->is_repeated() ? reflection->AddMessage(message, field)
                                     : reflection->MutableMessage(message, field);
  google::protobuf::Duration value;
  ToProto(duration, &value);
  to->CopyFrom(value);
}

// True for a number of 0 that reads back as if it had not been given.
bool IsLostZero(const FieldDescriptor* field, const Message& message) {
  if (field->is_repeated() || field->has_presence() || field->containing_type()->options().map_entry())
    return false;
  const bool number = field->type() != FieldDescriptor::TYPE_STRING &&
                      field->type() != FieldDescriptor::TYPE_BOOL &&
                      field->type() != FieldDescriptor::TYPE_ENUM;
  return number && !message.GetReflection()->HasField(message, field);
}

// Sets or adds one scalar; `Set` and `Add` are members of Reflection.
template <typename T, typename Set, typename Add>
void Store(const FieldDescriptor* field, Message* message, const T& value, Set set, Add add) {
  const Reflection* reflection = message->GetReflection();
  if (field->is_repeated()) {
    (reflection->*add)(message, field, value);
  } else {
    (reflection->*set)(message, field, value);
  }
}

void Reader::ReadScalar(const YAML::Node& node, const FieldDescriptor* field, Message* message) {
  bool ok = node.IsScalar();
  const std::string text = ok ? node.Scalar() : "";
  switch (ok ? field->cpp_type() : FieldDescriptor::CPPTYPE_MESSAGE) {
    case FieldDescriptor::CPPTYPE_STRING:
      Store(field, message, text, &Reflection::SetString, &Reflection::AddString);
      break;
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value = false;
      ok = YAML::convert<bool>::decode(node, value);
      if (ok) Store(field, message, value, &Reflection::SetBool, &Reflection::AddBool);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t value = 0;
      ok = absl::SimpleAtoi(text, &value);
      if (ok) Store(field, message, value, &Reflection::SetUInt32, &Reflection::AddUInt32);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value = 0;
      ok = absl::SimpleAtoi(text, &value);
      if (ok) Store(field, message, value, &Reflection::SetUInt64, &Reflection::AddUInt64);
      break;
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      ok = absl::SimpleAtoi(text, &value);
      if (ok) Store(field, message, value, &Reflection::SetInt32, &Reflection::AddInt32);
      break;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      ok = absl::SimpleAtod(text, &value);
      if (ok) Store(field, message, value, &Reflection::SetDouble, &Reflection::AddDouble);
      break;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* value = FindValue(field->enum_type(), text);
      ok = value != nullptr;
      if (ok) Store(field, message, value, &Reflection::SetEnum, &Reflection::AddEnum);
      break;
    }
    default:
      ok = false;
  }
  if (!ok) return Problem(node.Mark(), absl::StrCat(field->name(), " must be ", Kind(field)));
  if (zero_ == YamlZero::kIsRefused && IsLostZero(field, *message)) {
    Problem(node.Mark(), absl::StrCat(field->name(), " is 0, which would give its default; leave it out for ",
                                      "the default, or give another number"));
  }
}

}  // namespace

absl::Status ParseYaml(absl::string_view text, absl::string_view name, Message* message, YamlZero zero) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    Reader reader(name, zero);
    if (!documents.empty()) reader.ReadMessage(documents[0], message);
    if (documents.size() > 1) {
      reader.Problem(documents[1].Mark(),
                     absl::StrCat("a second document begins here (---); only one of the ", documents.size(),
                                  " would be read"));
    }
    return reader.status();
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", error.mark.line + 1, ": ", error.msg));
  }
}

}  // namespace weft
