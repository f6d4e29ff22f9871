#include "agent/probes/nccl/pattern.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "agent/probes/nccl/collective.h"

namespace weft::nccl {
namespace {

std::vector<uint8_t> Filled(const Contents& contents, uint32_t rank, uint64_t unit, const Window& window) {
  std::vector<uint8_t> bytes(window.bytes);
  contents.Fill(rank, unit, window, absl::MakeSpan(bytes));
  return bytes;
}

std::vector<uint8_t> Expected(const Contents& contents, uint32_t rank, uint64_t unit, const Window& window) {
  std::vector<uint8_t> bytes(window.bytes);
  contents.Expect(rank, unit, window, absl::MakeSpan(bytes));
  return bytes;
}

TEST(Contents, WhatMovesIsExpectedWhereItBelongs) {
  const Window window = {64, 100};
  const Contents gather(v1::NCCL_COLLECTIVE_ALL_GATHER, v1::NCCL_DATA_TYPE_FLOAT32, 4, 1);
  EXPECT_EQ(Expected(gather, 1, 3, window), Filled(gather, 3, 0, window));
  const Contents all_to_all(v1::NCCL_COLLECTIVE_ALL_TO_ALL, v1::NCCL_DATA_TYPE_FLOAT32, 4, 1);
  EXPECT_EQ(Expected(all_to_all, 1, 3, window), Filled(all_to_all, 3, 1, window));
  const Contents broadcast(v1::NCCL_COLLECTIVE_BROADCAST, v1::NCCL_DATA_TYPE_FLOAT32, 4, 1);
  EXPECT_EQ(Expected(broadcast, 3, 0, window), Filled(broadcast, 0, 0, window));
  const Contents ring(v1::NCCL_COLLECTIVE_SEND_RECV, v1::NCCL_DATA_TYPE_FLOAT32, 4, 1);
  EXPECT_EQ(Expected(ring, 0, 0, window), Filled(ring, 3, 0, window));
}

TEST(Contents, DifferByRankUnitPlaceAndSeed) {
  const Contents a(v1::NCCL_COLLECTIVE_ALL_TO_ALL, v1::NCCL_DATA_TYPE_FLOAT32, 4, 1);
  const Contents b(v1::NCCL_COLLECTIVE_ALL_TO_ALL, v1::NCCL_DATA_TYPE_FLOAT32, 4, 2);
  const auto base = Filled(a, 0, 0, {0, 64});
  EXPECT_NE(base, Filled(a, 1, 0, {0, 64}));
  EXPECT_NE(base, Filled(a, 0, 1, {0, 64}));
  EXPECT_NE(base, Filled(a, 0, 0, {64, 64}));
  EXPECT_NE(base, Filled(b, 0, 0, {0, 64}));
}

RC_GTEST_PROP(Contents, WindowsShowTheSameBytesAsTheWhole, ()) {
  const auto collective = static_cast<v1::NcclCollective>(*rc::gen::inRange(1, 7));
  const auto type = static_cast<v1::NcclDataType>(*rc::gen::inRange(1, 7));
  const Contents contents(collective, type, 5, *rc::gen::arbitrary<uint64_t>());
  const auto offset = 16 * *rc::gen::inRange<uint64_t>(0, 20);
  const auto whole = Filled(contents, 2, 1, {0, 512});
  const auto part = Filled(contents, 2, 1, {offset, 128});
  RC_ASSERT(std::memcmp(whole.data() + offset, part.data(), 128) == 0);
}

template <typename T>
std::vector<double> Numbers(const std::vector<uint8_t>& bytes, double (*decode)(T)) {
  std::vector<double> numbers(bytes.size() / sizeof(T));
  for (size_t i = 0; i < numbers.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof value);
    numbers[i] = decode(value);
  }
  return numbers;
}

double Bfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}

double Float16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  return exponent == 0 ? 0 : std::ldexp(1024.0 + (bits & 1023), exponent - 25);
}

std::vector<double> Decode(v1::NcclDataType type, const std::vector<uint8_t>& bytes) {
  switch (type) {
    case v1::NCCL_DATA_TYPE_INT8:
      return Numbers<int8_t>(bytes, [](int8_t v) { return static_cast<double>(v); });
    case v1::NCCL_DATA_TYPE_INT32:
      return Numbers<int32_t>(bytes, [](int32_t v) { return static_cast<double>(v); });
    case v1::NCCL_DATA_TYPE_FLOAT16:
      return Numbers<uint16_t>(bytes, Float16);
    case v1::NCCL_DATA_TYPE_BFLOAT16:
      return Numbers<uint16_t>(bytes, Bfloat16);
    case v1::NCCL_DATA_TYPE_FLOAT64:
      return Numbers<double>(bytes, [](double v) { return v; });
    default:
      return Numbers<float>(bytes, [](float v) { return static_cast<double>(v); });
  }
}

double ExactUpTo(v1::NcclDataType type) {
  if (type == v1::NCCL_DATA_TYPE_INT8) return 127;
  if (type == v1::NCCL_DATA_TYPE_BFLOAT16) return 256;
  return type == v1::NCCL_DATA_TYPE_FLOAT16 ? 2048 : 1 << 24;
}

// Up to many more ranks than a small type counts.
RC_GTEST_PROP(Contents, SumsAreThoseOfWhatEachRankSendsAndExactInEveryType, ()) {
  const auto type = static_cast<v1::NcclDataType>(*rc::gen::inRange(1, 7));
  const auto ranks = *rc::gen::elementOf(std::vector<uint32_t>{1, 2, 7, 16, 127, 300, 3000});
  const Contents contents(v1::NCCL_COLLECTIVE_ALL_REDUCE, type, ranks, *rc::gen::arbitrary<uint64_t>());
  const Window window = {32, 128};
  const auto sums = Decode(type, Expected(contents, 0, 0, window));
  std::vector<double> added(sums.size(), 0);
  bool any = false;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto own = Decode(type, Filled(contents, rank, 0, window));
    for (size_t i = 0; i < added.size(); ++i) added[i] += own[i];
  }
  for (const double sum : added) {
    RC_ASSERT(sum <= ExactUpTo(type));
    any = any || sum > 0;
  }
  RC_ASSERT(sums == added);
  RC_ASSERT(any);
}

RC_GTEST_PROP(CheckedWindows, LieWithinTheUnitAndTouchItsStartAndEnd, ()) {
  const auto unit = *rc::gen::inRange<uint64_t>(1, 64 << 20);
  const auto budget = *rc::gen::inRange<uint64_t>(0, 16 << 20);
  const auto windows = CheckedWindows(unit, budget);
  RC_ASSERT(!windows.empty());
  RC_ASSERT(windows.front().offset == 0U);
  RC_ASSERT(windows.back().offset + windows.back().bytes == unit);
  uint64_t total = 0;
  for (const Window& w : windows) {
    RC_ASSERT(w.offset % 16 == 0U);
    RC_ASSERT(w.bytes > 0 && w.bytes <= kMaxWindowBytes);
    RC_ASSERT(w.offset + w.bytes <= unit);
    total += w.bytes;
  }
  if (unit <= budget) RC_ASSERT(total == unit);
}

TEST(FirstDifference, IsTheFirstByteThatDiffers) {
  const std::vector<uint8_t> a = {1, 2, 3}, b = {1, 9, 9};
  EXPECT_EQ(FirstDifference(a, b), 1U);
  EXPECT_EQ(FirstDifference(a, a), std::nullopt);
}

}  // namespace
}  // namespace weft::nccl
