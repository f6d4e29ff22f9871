#include "server/detect/event_class.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/detect/test_series.h"

namespace weft {
namespace {

using ::testing::Each;

EventClass ClassOfSeries(const std::vector<double>& values) {
  return ClassOf(values, FindSteps(StepDetector({}), values));
}

TEST(EventClassTest, EachKindIsToldFromTheOthers) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(ClassOfSeries(Make({.seed = seed})), EventClass::kNone) << seed;
    EXPECT_EQ(ClassOfSeries(Make({.onset = 200, .step = 0.1, .seed = seed})), EventClass::kStep) << seed;
    EXPECT_EQ(ClassOfSeries(Make({.onset = 200, .step = 0.2, .recovery = 225, .seed = seed})),
              EventClass::kIncident)
        << seed;
    std::vector<double> drift = Make({.noise = 0.006, .seed = seed});
    std::vector<double> dips = drift, flapping = drift;
    for (size_t i = 0; i < drift.size(); ++i) {
      drift[i] *= 1 - 0.06 * static_cast<double>(i) / 500;
      if (i == 100 || i == 101 || i == 300) dips[i] *= 0.5;
      if (i >= 200 && i < 320 && (i / 5) % 2 == 0) flapping[i] *= 0.8;
    }
    EXPECT_EQ(ClassOfSeries(drift), EventClass::kDrift) << seed;
    EXPECT_EQ(ClassOfSeries(dips), EventClass::kTransient) << seed;
    EXPECT_EQ(ClassOfSeries(flapping), EventClass::kFlapping) << seed;
  }
}

TEST(EventClassTest, WhatHalfTheCohortShowsIsTheFleets) {
  std::vector<std::vector<double>> cohort;
  for (uint64_t k = 1; k <= 16; ++k) cohort.push_back(Make({.onset = 250 + k % 2, .step = 0.15, .seed = k}));
  EXPECT_THAT(ClassesOf(StepDetector({}), cohort), Each(EventClass::kFleet));
}

TEST(EventClassTest, OneSlowNodeIsItsOwnAndAloneAlsoDuringAFleetEvent) {
  std::vector<std::vector<double>> cohort;
  for (uint64_t k = 1; k <= 16; ++k) cohort.push_back(Make({.seed = k}));
  cohort[3] = Make({.onset = 250, .step = 0.15, .seed = 99});
  std::vector<EventClass> expected(16, EventClass::kNone);
  expected[3] = EventClass::kStep;
  EXPECT_EQ(ClassesOf(StepDetector({}), cohort), expected);
  for (auto& series : cohort) {
    for (size_t i = 350; i < series.size(); ++i) series[i] *= 0.8;
  }
  expected.assign(16, EventClass::kFleet);
  expected[3] = EventClass::kStep;
  EXPECT_EQ(ClassesOf(StepDetector({}), cohort), expected);
}

TEST(EventClassTest, ShortAndEmptySeriesAreNothing) {
  EXPECT_EQ(ClassOfSeries({}), EventClass::kNone);
  EXPECT_EQ(ClassOfSeries({1, 2, 3}), EventClass::kNone);
  EXPECT_EQ(ClassOfSeries(std::vector<double>(100, 0.0 / 1.0)), EventClass::kNone);
}

}  // namespace
}  // namespace weft
