#include "server/detect/series.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace weft {
namespace {

void EncodeSide(const SideReport& side, BlobWriter& writer) {
  writer.U8(static_cast<uint8_t>(side.state));
  writer.U8(side.accuses_peer);
  writer.F64(side.value);
}

SideReport DecodeSide(BlobReader& reader) {
  SideReport side;
  side.state = static_cast<SideReport::State>(reader.U8() & 3);
  side.accuses_peer = reader.U8() != 0;
  side.value = reader.F64();
  return side;
}

void EncodeSample(const Sample& sample, BlobWriter& writer) {
  writer.Instant(sample.time);
  writer.Text(sample.run_id);
  writer.Text(sample.partner);
  EncodeSide(sample.mine, writer);
  EncodeSide(sample.theirs, writer);
  writer.U8(sample.in_maintenance);
  for (const bool explained : sample.explained) writer.U8(explained);
}

Sample DecodeSample(BlobReader& reader) {
  Sample sample;
  sample.time = reader.Instant();
  sample.run_id = reader.Text();
  sample.partner = reader.Text();
  sample.mine = DecodeSide(reader);
  sample.theirs = DecodeSide(reader);
  sample.in_maintenance = reader.U8() != 0;
  for (bool& explained : sample.explained) explained = reader.U8() != 0;
  return sample;
}

void EncodeBelief(const Belief& belief, BlobWriter& writer) {
  writer.U8(belief.open);
  writer.U8(belief.against_cohort);
  writer.Instant(belief.since);
  writer.F64(belief.expected);
  writer.F64(belief.ratio);
  writer.U8(belief.bad_runs);
  writer.U8(belief.good_runs);
}

Belief DecodeBelief(BlobReader& reader) {
  Belief belief;
  belief.open = reader.U8() != 0;
  belief.against_cohort = reader.U8() != 0;
  belief.since = reader.Instant();
  belief.expected = reader.F64();
  belief.ratio = reader.F64();
  belief.bad_runs = reader.U8();
  belief.good_runs = reader.U8();
  return belief;
}

}  // namespace

double Sample::bandwidth() const {
  if (mine.value < 0) return theirs.value;
  return theirs.value < 0 ? mine.value : std::min(mine.value, theirs.value);
}

Sample* FindOrInsertSample(Series& series, absl::Time time, absl::string_view run_id,
                           absl::string_view partner, size_t capacity) {
  std::vector<Sample>& samples = series.samples;
  for (Sample& sample : samples) {
    if (sample.run_id == run_id) return &sample;
  }
  const auto newer = [&](const Sample& sample) {
    return std::tie(sample.time, sample.run_id) >
           std::tuple<const absl::Time&, absl::string_view>(time, run_id);
  };
  auto place = std::partition_point(samples.begin(), samples.end(), newer);
  if (place == samples.end() && samples.size() >= capacity) return nullptr;
  Sample sample;
  sample.time = time;
  sample.run_id = std::string(run_id);
  sample.partner = std::string(partner);
  const auto index = place - samples.begin();
  samples.insert(place, std::move(sample));
  if (samples.size() > capacity) samples.pop_back();
  return &samples[static_cast<size_t>(index)];
}

void ForgetLevel(Series& series) {
  series.samples.clear();
  series.training.clear();
  series.baseline = 0;
}

double Quantile(std::vector<double> values, double quantile) {
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(quantile * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank), values.end());
  return values[rank];
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void EncodeSeries(const Series& series, BlobWriter& writer) {
  writer.Text(series.cohort);
  writer.Text(series.stack);
  writer.Instant(series.stack_since);
  writer.U64(series.samples.size());
  for (const Sample& sample : series.samples) EncodeSample(sample, writer);
  writer.U64(series.training.size());
  for (const double value : series.training) writer.F64(value);
  writer.F64(series.baseline);
  for (const Belief& belief : series.beliefs) EncodeBelief(belief, writer);
}

Series DecodeSeries(BlobReader& reader) {
  Series series;
  series.cohort = reader.Text();
  series.stack = reader.Text();
  series.stack_since = reader.Instant();
  series.samples.resize(reader.Count());
  for (Sample& sample : series.samples) sample = DecodeSample(reader);
  series.training.resize(reader.Count());
  for (double& value : series.training) value = reader.F64();
  series.baseline = reader.F64();
  for (Belief& belief : series.beliefs) belief = DecodeBelief(reader);
  return series;
}

}  // namespace weft
