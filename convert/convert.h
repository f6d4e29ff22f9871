// Between the contract (weft.v1 messages) and plain values (fleet/). Any thread.
//
// FromProto checks nothing about meaning: enums that a value type does not have, and times out of range, come
// back as kInvalidArgument; bounds are the caller's business (ingest, api, agent).
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fleet/finding.h"
#include "fleet/maintenance.h"
#include "fleet/node.h"
#include "fleet/probe.h"
#include "fleet/transport.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "weft/v1/agent.pb.h"
#include "weft/v1/finding.pb.h"
#include "weft/v1/fleet.pb.h"
#include "weft/v1/maintenance.pb.h"
#include "weft/v1/probe.pb.h"
#include "weft/v1/transport.pb.h"

namespace weft {

// Times are cut to the range of google.protobuf.Timestamp (years 1 to 9999).
void ToProto(absl::Time time, google::protobuf::Timestamp* out);
void ToProto(absl::Duration duration, google::protobuf::Duration* out);
absl::Time FromProto(const google::protobuf::Timestamp& timestamp);
absl::Duration FromProto(const google::protobuf::Duration& duration);

void ToProto(const Node& node, v1::Node* out);
Node FromProto(const v1::Node& node);

void ToProto(const ProbeSpec& spec, v1::ProbeSpec* out);
absl::StatusOr<ProbeSpec> FromProto(
    const v1::ProbeSpec& spec);  // kInvalidArgument: no kind, or an unknown one

void ToProto(const Measurement& measurement, v1::Measurement* out);
absl::StatusOr<Measurement> FromProto(const v1::Measurement& measurement);

// kInvalidArgument: an unknown verdict.
void ToProto(const TransportProof& proof, v1::TransportProof* out);
absl::StatusOr<TransportProof> FromProto(const v1::TransportProof& proof);

void ToProto(const Result& result, v1::Result* out);
absl::StatusOr<Result> FromProto(const v1::Result& result);

// Participants get rank and node id; hostnames and results are filled by whoever knows them.
void ToProto(const Run& run, v1::Run* out);

// `notifications_sent` and hostnames are filled by whoever knows them.
void ToProto(const Episode& episode, v1::Finding* out);

void ToProto(const Delivery& delivery, v1::Delivery* out);

// Output-only fields (state, occurrence, matched nodes) are filled by whoever knows them.
void ToProto(const MaintenanceWindow& window, v1::MaintenanceWindow* out);
absl::StatusOr<MaintenanceWindow> FromProto(const v1::MaintenanceWindow& window);

}  // namespace weft
