#include "server/detect/step_detector.h"

#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/detect/event_class.h"
#include "server/detect/test_series.h"

namespace weft {
namespace {

using Direction = StepEvent::Direction;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<PlacedStep> Steps(const std::vector<double>& values, StepOptions options = {}) {
  return FindSteps(StepDetector(options), values);
}

// Any series a fleet may send: noise, correlation, steps both ways, dips, gaps, rounding.
std::vector<double> AnySeries() {
  MadeSeries what;
  what.length = *rc::gen::inRange<size_t>(30, 400);
  what.level = std::pow(10.0, *rc::gen::inRange(-3, 12));
  what.noise = *rc::gen::inRange(0, 40) / 1000.0;
  what.correlation = *rc::gen::inRange(0, 80) / 100.0;
  what.onset = *rc::gen::inRange<size_t>(0, 400);
  what.recovery = what.onset + *rc::gen::inRange<size_t>(1, 400);
  what.step = *rc::gen::inRange(-50, 99) / 100.0;
  what.seed = *rc::gen::arbitrary<uint64_t>();
  std::vector<double> values = Make(what);
  const int spoiled = *rc::gen::inRange(0, 40);
  for (int i = 0; i < spoiled; ++i) {
    double& value = values[*rc::gen::inRange<size_t>(0, values.size())];
    value =
        *rc::gen::element(kNaN, 0.0, value * 0.3, value * 50, -1.0, std::numeric_limits<double>::infinity());
  }
  return values;
}

bool AreSame(const std::vector<PlacedStep>& a, const std::vector<PlacedStep>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.at == y.at && x.onset == y.onset && x.event.direction == y.event.direction &&
                  x.event.confidence == y.event.confidence && x.event.recovers == y.event.recovers;
         });
}

TEST(StepDetectorTest, AStepGivesOneEventAtItsOnsetSoon) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const auto steps = Steps(Make({.onset = 200, .step = 0.1, .seed = seed}));
    ASSERT_EQ(steps.size(), 1U) << seed;
    EXPECT_EQ(steps[0].event.direction, Direction::kWorse);
    EXPECT_NEAR(static_cast<double>(steps[0].onset), 200, 1) << seed;
    EXPECT_LE(steps[0].at, 206U) << seed;
    EXPECT_NEAR(steps[0].event.level_before, 100, 2) << seed;
    EXPECT_NEAR(steps[0].event.level_after, 90, 2) << seed;
    EXPECT_GT(steps[0].event.confidence, 0.9) << seed;
  }
}

TEST(StepDetectorTest, FastIsNotLaterThanBalancedAndFindsAtLeastAsMuch) {
  size_t fast_sum = 0, balanced_sum = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::vector<double> values = Make({.onset = 200, .step = 0.06, .seed = seed});
    const auto fast = Steps(values, {.profile = StepProfile::kFast});
    const auto balanced = Steps(values);
    ASSERT_FALSE(fast.empty() || balanced.empty()) << seed;
    fast_sum += fast[0].at;
    balanced_sum += balanced[0].at;
  }
  EXPECT_LT(fast_sum, balanced_sum);
}

TEST(StepDetectorTest, RecoveryIsAnEventOfItsOwnAndTheBestLevelIsKept) {
  const StepDetector detector({});
  StepState state;
  std::vector<StepEvent> events;
  const std::vector<double> values = Make({.onset = 150, .step = 0.2, .recovery = 250});
  for (size_t i = 0; i < values.size(); ++i) {
    if (const auto event = detector.Observe(state, values[i])) events.push_back(*event);
    if (i == 200) {
      EXPECT_NEAR(detector.Level(state), 80, 2);
      EXPECT_NEAR(detector.BestLevel(state), 100, 2);
      EXPECT_NEAR(detector.PreviousLevel(state), 100, 2);
    }
  }
  ASSERT_EQ(events.size(), 2U);
  EXPECT_FALSE(events[0].recovers);
  EXPECT_EQ(events[1].direction, Direction::kBetter);
  EXPECT_TRUE(events[1].recovers);
  EXPECT_NEAR(detector.Level(state), 100, 2);
}

TEST(StepDetectorTest, HalfABackIsNoRecovery) {
  std::vector<double> values = Make({.length = 300, .onset = 100, .step = 0.3});
  for (size_t i = 200; i < 300; ++i) values[i] *= 0.8 / 0.7;
  const auto steps = Steps(values);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].event.direction, Direction::kBetter);
  EXPECT_FALSE(steps[1].event.recovers);
}

TEST(StepDetectorTest, LatencyIsWorseWhenItRises) {
  const auto steps = Steps(Make({.onset = 200, .step = -0.2}), {.better = Better::kLower});
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].event.direction, Direction::kWorse);
  EXPECT_NEAR(steps[0].event.level_after, 120, 2);
}

TEST(StepDetectorTest, ShortDipsOfAnyDepthAreNoSteps) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    std::vector<double> values = Make({.noise = 0.005, .seed = seed});
    for (size_t at = 60; at < 480; at += 60) {
      for (size_t i = 0; i < 1 + seed % 3; ++i) values[at + i] *= 0.3 + 0.02 * static_cast<double>(seed);
    }
    EXPECT_TRUE(Steps(values).empty()) << seed;
  }
}

TEST(StepDetectorTest, ADailyPatternIsNoStep) {
  int false_events = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    false_events += static_cast<int>(Steps(Make({.noise = 0.007, .daily = 0.015, .seed = seed})).size());
  }
  EXPECT_LE(false_events, 2);
}

TEST(StepDetectorTest, TwoOperatingModesAreNoSteps) {
  int false_events = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    std::vector<double> values = Make({.noise = 0.006, .seed = seed});
    std::mt19937_64 random(seed);
    for (double& value : values) value *= random() % 5 == 0 ? 0.96 : 1;
    false_events += static_cast<int>(Steps(values).size());
  }
  EXPECT_LE(false_events, 2);
}

TEST(StepDetectorTest, AConstantThatFallsIsFoundThoughItHasNoNoise) {
  std::vector<double> values(300, 42.0);
  std::fill(values.begin() + 150, values.end(), 40.0);
  const auto steps = Steps(values);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].onset, 150U);
}

TEST(StepDetectorTest, AFallToNothingIsFoundAndTheNewLevelIsFollowed) {
  std::vector<double> values = Make({.length = 400, .noise = 0.01});
  for (size_t i = 100; i < 200; ++i) values[i] = 0;
  const auto steps = Steps(values);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].onset, 100U);
  EXPECT_TRUE(steps[1].event.recovers);
  EXPECT_EQ(steps[1].onset, 200U);
}

TEST(StepDetectorTest, AFirstValueThatIsNoMeasureDoesNotBlindIt) {
  std::vector<double> values = Make({.length = 300, .onset = 150, .step = 0.2});
  values[0] = 0.01;
  const auto steps = Steps(values);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_NEAR(static_cast<double>(steps[0].onset), 150, 1);
}

TEST(StepDetectorTest, OnsetsAreRightAcrossGaps) {
  std::vector<double> values = Make({.onset = 200, .step = 0.15});
  for (size_t i = 203; i < 240; ++i) values[i] = kNaN;
  const auto steps = Steps(values);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_NEAR(static_cast<double>(steps[0].onset), 200, 1);
}

TEST(StepDetectorTest, ConstantsNeverAlarm) {
  EXPECT_TRUE(rc::check([] {
    const double level = *rc::gen::positive<int>() / 1000.0;
    RC_ASSERT(Steps(std::vector<double>(*rc::gen::inRange<size_t>(0, 300), level)).empty());
  }));
}

TEST(StepDetectorTest, MissingSamplesChangeNothing) {
  EXPECT_TRUE(rc::check([] {
    std::vector<double> values = AnySeries();
    const std::vector<PlacedStep> steps = Steps(values);
    std::vector<double> with_gaps;
    for (const double value : values) {
      const int gap = *rc::gen::weightedElement<int>({{8, 0}, {1, 1}, {1, 5}});
      with_gaps.insert(with_gaps.end(), static_cast<size_t>(gap), kNaN);
      with_gaps.push_back(value);
    }
    std::vector<double> events, events_with_gaps;
    for (const PlacedStep& step : steps) events.push_back(step.event.confidence);
    for (const PlacedStep& step : Steps(with_gaps)) events_with_gaps.push_back(step.event.confidence);
    RC_ASSERT(events == events_with_gaps);
  }));
}

TEST(StepDetectorTest, OnlyRatiosCount) {
  EXPECT_TRUE(rc::check([] {
    std::vector<double> values = AnySeries();
    const std::vector<PlacedStep> steps = Steps(values);
    // Powers of two, so that not even rounding differs.
    const double factor = std::pow(2.0, *rc::gen::inRange(-30, 30));
    for (double& value : values) value *= factor;
    RC_ASSERT(AreSame(steps, Steps(values)));
  }));
}

TEST(StepDetectorTest, ADecodedStateHasTheSameFuture) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<double> values = AnySeries();
    const StepDetector detector({});
    StepState kept, restored;
    for (const double value : values) {
      const auto event = detector.Observe(kept, value);
      const auto again = detector.Observe(restored, value);
      RC_ASSERT(event.has_value() == again.has_value());
      if (event.has_value()) RC_ASSERT(event->confidence == again->confidence);
      if (*rc::gen::inRange(0, 10) == 0) {
        const auto decoded = DecodeStepState(EncodeStepState(restored));
        RC_ASSERT(decoded.ok());
        restored = *decoded;
      }
      RC_ASSERT(EncodeStepState(kept) == EncodeStepState(restored));
    }
  }));
}

TEST(StepDetectorTest, WhateverComesItsNumbersStayFinite) {
  EXPECT_TRUE(rc::check([] {
    const StepDetector detector({*rc::gen::element(StepProfile::kBalanced, StepProfile::kFast),
                                 *rc::gen::element(Better::kHigher, Better::kLower)});
    StepState state;
    for (const double value : *rc::gen::container<std::vector<double>>(rc::gen::arbitrary<double>())) {
      detector.Observe(state, value);
    }
    for (const double value : AnySeries()) {
      const auto event = detector.Observe(state, value);
      if (event.has_value())
        RC_ASSERT(std::isfinite(event->level_before) && std::isfinite(event->level_after));
    }
    RC_ASSERT(DecodeStepState(EncodeStepState(state)).ok());
  }));
}

TEST(StepDetectorTest, ADamagedOrForeignStateIsRefused) {
  const StepDetector detector({});
  StepState state;
  for (const double value : Make({.length = 200})) detector.Observe(state, value);
  EXPECT_TRUE(DecodeStepState(EncodeStepState(state)).ok());
  EXPECT_EQ(DecodeStepState(EncodeStepState(state).substr(1)).status().code(), absl::StatusCode::kDataLoss);
  StepState other_version = state;
  other_version.version = 99;
  EXPECT_EQ(DecodeStepState(EncodeStepState(other_version)).status().code(), absl::StatusCode::kDataLoss);
  StepState poisoned = state;
  poisoned.level = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(DecodeStepState(EncodeStepState(poisoned)).status().code(), absl::StatusCode::kDataLoss);
  std::string bytes = EncodeStepState(state);
  bytes.back() = '\xff';  // a position in the window
  EXPECT_EQ(DecodeStepState(bytes).status().code(), absl::StatusCode::kDataLoss);
}

TEST(SampleWindowTest, KeepsTheNewestExactlyAndTheOlderToAFractionOfTheNoise) {
  SampleWindow window;
  std::vector<float> pushed;
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal(0, 0.01F);
  for (int i = 0; i < 400; ++i) {
    // A level that wanders, so that the codes have to follow.
    const float level = 0.0005F * static_cast<float>(i);
    const int16_t sample = SampleWindow::Quantise(level + normal(random));
    window.Push(sample, level, 0.01F);
    pushed.push_back(SampleWindow::LogOf(sample));
  }
  std::vector<float> logs(SampleWindow::kCapacity);
  ASSERT_EQ(window.Copy(logs.data()), SampleWindow::kCapacity);
  for (size_t i = 0; i < logs.size(); ++i) {
    const float expected = pushed[pushed.size() - logs.size() + i];
    const float tolerance = i >= SampleWindow::kOlder ? 1e-7F : 0.002F;
    EXPECT_NEAR(logs[i], expected, tolerance) << i;
  }
}

TEST(SampleWindowTest, KeepNewestForgetsTheRest) {
  SampleWindow window;
  for (int16_t i = 0; i < 200; ++i) window.Push(i, 0.01F, 0.01F);
  window.KeepNewest(60);
  EXPECT_EQ(window.size(), 60);
  window.KeepNewest(7);
  std::vector<float> logs(SampleWindow::kCapacity);
  ASSERT_EQ(window.Copy(logs.data()), 7);
  EXPECT_FLOAT_EQ(logs[0], SampleWindow::LogOf(193));
  EXPECT_FLOAT_EQ(logs[6], SampleWindow::LogOf(199));
}

}  // namespace
}  // namespace weft
