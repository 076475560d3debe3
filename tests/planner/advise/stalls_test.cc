// Stalls that are planted into simulated pipelines are found, and cost what two replays differ by.
#include "profiler/trace/analyze/stalls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "planner/schedule/schedule.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/trace_builder.h"
#include "tests/planner/profiles.h"
#include "tests/support/cases.h"

namespace mptune::planner {
namespace {

using profiler::Stall;
using testing::make_profile;

constexpr double kMs = 1e6;

// A pipeline whose every action is one event of its own length.
Trace random_pipeline(std::mt19937& random) {
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
  const int devices = pick(2, 8), turn = pick(0, 2), chunks = turn == 2 ? 2 : 1;
  const int microbatches = devices * pick(turn == 2 ? 2 : 1, std::max(2, 32 / devices)) + (turn == 2 ? 0 : pick(4, 6));
  const int stages = devices * chunks;
  std::vector<double> factors;
  for (int s = 0; s < stages; ++s) factors.push_back(0.01 * pick(80, 140));
  Plan plan = testing::stages_of(stages, std::vector<int>(as_index(stages), 1), testing::ones(microbatches));
  if (chunks == 2) {
    plan.devices.resize(as_index(devices));
    for (int s = 0; s < stages; ++s) plan.stages[as_index(s)].devices = {s % devices};
  }
  plan = testing::scheduled(plan, turn == 0 ? "gpipe" : turn == 1 ? "1f1b" : "interleaved");
  const CostModel cost(make_profile({.layers = stages, .devices = devices, .latency_s = 1e-5 * pick(0, 20)}, factors));
  return simulate(plan, cost).trace;
}

/// What is done to one event.
struct Times {
  std::vector<Nanoseconds> durations;
  std::vector<Nanoseconds> lags;  ///< after the end of all producers
};

// When events start, by the definition. Requires: edges from earlier to later events.
std::vector<Nanoseconds> starts_of(const Trace& trace, const Times& times) {
  std::vector<std::vector<int>> producers(trace.events.size());
  for (const Edge& edge : trace.edges) producers[as_index(edge.consumer)].push_back(edge.producer);
  std::vector<Nanoseconds> starts(trace.events.size(), Nanoseconds{0});
  for (std::size_t i = 0; i < starts.size(); ++i) {
    for (const int producer : producers[i]) {
      EXPECT_LT(as_index(producer), i);
      starts[i] = std::max(starts[i], starts[as_index(producer)] + times.durations[as_index(producer)]);
    }
    starts[i] += times.lags[i];
  }
  return starts;
}

Nanoseconds last_end(const Trace& trace, const Times& times) {
  const std::vector<Nanoseconds> starts = starts_of(trace, times);
  Nanoseconds end{0};
  for (std::size_t i = 0; i < starts.size(); ++i) end = std::max(end, starts[i] + times.durations[i]);
  return end;
}

Trace retimed(const Trace& trace, const Times& times) {
  Trace result = trace;
  result.ranges.clear();
  result.launches.clear();
  const std::vector<Nanoseconds> starts = starts_of(trace, times);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    result.events[i].start = starts[i];
    result.events[i].duration = times.durations[i];
  }
  result.steps = {{0, Nanoseconds{0}, last_end(trace, times)}};
  profiler::order_events(result);
  return result;
}

bool is_action(const Trace& trace, std::size_t i) {
  const Event& event = trace.events[i];
  const bool kind = event.kind == EventKind::forward || event.kind == EventKind::backward;
  return kind && event.tag >= 0 && trace.tags[as_index(event.tag)].microbatch >= 0;
}

using Who = std::tuple<EventKind, int, int, int>;  // kind, device, stage, micro-batch

Who who_is(const Trace& trace, std::size_t i) {
  const Event& event = trace.events[i];
  const Tag& tag = trace.tags[as_index(event.tag)];
  return {event.kind, event.device, tag.stage, tag.microbatch};
}

// The rule, from its words: above which time an action is a stall.
double longest_usual(const Trace& trace, std::size_t at, const std::vector<Nanoseconds>& times, Nanoseconds step) {
  std::vector<double> peers, distances;
  const auto [kind, device, stage, microbatch] = who_is(trace, at);
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!is_action(trace, i)) continue;
    const auto [other_kind, other_device, other_stage, other] = who_is(trace, i);
    if (std::tie(kind, device, stage) == std::tie(other_kind, other_device, other_stage))
      peers.push_back(static_cast<double>(times[i].count()));
  }
  std::ranges::sort(peers);
  const double median = peers[(peers.size() - 1) / 2];
  for (const double time : peers) distances.push_back(std::abs(time - median));
  std::ranges::sort(distances);
  return median + std::max(6 * 1.4826 * distances[(peers.size() - 1) / 2], 0.005 * static_cast<double>(step.count()));
}

struct Planted {
  std::size_t event = 0;
  bool late = false;
};

class PlantedStalls {
 public:
  explicit PlantedStalls(unsigned seed) : random_(seed), base_(random_pipeline(random_)) {
    for (const Event& event : base_.events) times_.durations.push_back(event.duration);
    times_.lags.assign(base_.events.size(), Nanoseconds{0});
    for (std::size_t i = 0; i < base_.events.size(); ++i) {
      if (!is_action(base_, i)) continue;
      actions_.push_back(i);
      times_.durations[i] += Nanoseconds{std::uniform_int_distribution(0, 20000)(random_)};
    }
    const int count = std::uniform_int_distribution(1, 3)(random_);
    for (int k = 0; k < count; ++k) plant();
  }

  void check() {
    const Trace trace = retimed(base_, times_);
    const std::vector<profiler::StepWork> steps = profiler::step_works(trace);
    ASSERT_EQ(steps.size(), 1U);
    const Nanoseconds step = last_end(base_, times_);
    std::map<std::pair<Who, bool>, Stall> found;
    for (const Stall& stall : profiler::find_stalls(steps)) {
      const profiler::Work& work = steps[0].works[as_index(stall.work)];
      found[{{work.kind, work.device, work.tag.stage, work.tag.microbatch}, stall.kind == Stall::Kind::late}] = stall;
    }
    for (const Planted& one : planted_) {
      const auto place = found.find({who_is(base_, one.event), one.late});
      const std::vector<Nanoseconds>& times = one.late ? times_.lags : times_.durations;
      const auto time = static_cast<double>(times[one.event].count());
      const bool is_stall = time > longest_usual(base_, one.event, times, step);
      if (place == found.end()) {
        // The first action of a step has no peers that wait for nothing.
        EXPECT_TRUE(one.late || !is_stall) << time;
        missed_ += is_stall;
        continue;
      }
      EXPECT_TRUE(is_stall || one.late) << time;
      ++found_;
      EXPECT_EQ(place->second.time, times[one.event]);
      EXPECT_EQ(place->second.step_time, step);
      EXPECT_EQ(place->second.price, brute_force_price(one, place->second.typical)) << one.late;
    }
  }

  [[nodiscard]] int found() const { return found_; }
  [[nodiscard]] int missed() const { return missed_; }

 private:
  void plant() {
    const std::size_t event = actions_[std::uniform_int_distribution<std::size_t>(0, actions_.size() - 1)(random_)];
    const bool late = std::bernoulli_distribution(0.4)(random_);
    if (std::ranges::any_of(planted_, [&](const Planted& other) { return other.event == event; })) return;
    const Nanoseconds by{static_cast<std::int64_t>(std::uniform_real_distribution(0.2, 30.0)(random_) * kMs)};
    (late ? times_.lags : times_.durations)[event] += by;
    planted_.push_back({event, late});
  }

  [[nodiscard]] Nanoseconds brute_force_price(const Planted& one, Nanoseconds typical) const {
    Times without = times_;
    (one.late ? without.lags : without.durations)[one.event] = typical;
    return last_end(base_, times_) - last_end(base_, without);
  }

  std::mt19937 random_;
  Trace base_;
  Times times_;
  std::vector<std::size_t> actions_;
  std::vector<Planted> planted_;
  int found_ = 0;
  int missed_ = 0;
};

TEST(Stalls, PlantedOnesAreFoundAtThePriceOfTwoReplays) {
  int found = 0, missed = 0;
  const int cases = testing::cases(300);
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(seed);
    PlantedStalls stalls(static_cast<unsigned>(seed));
    stalls.check();
    found += stalls.found();
    missed += stalls.missed();
  }
  EXPECT_GT(found, cases * 3 / 2);
  EXPECT_LE(missed, cases / 100);
}

// One device, a step per list of lengths [ms]; every action is a forward of another micro-batch.
std::vector<profiler::StepWork> forwards(const std::vector<std::vector<int>>& lengths) {
  std::vector<profiler::StepWork> steps;
  for (const std::vector<int>& step : lengths) {
    profiler::StepWork work;
    Nanoseconds now{0};
    for (std::size_t i = 0; i < step.size(); ++i) {
      profiler::Work one;
      one.tag = {.step = static_cast<int>(steps.size()), .stage = 0, .microbatch = static_cast<int>(i), .layer = -1, .replica = 0};
      one.start = now;
      now += std::chrono::milliseconds{step[i]};
      one.end = now;
      if (i > 0) work.edges.push_back({static_cast<int>(i) - 1, static_cast<int>(i), EdgeKind::order});
      work.works.push_back(one);
    }
    work.window = {static_cast<int>(steps.size()), Nanoseconds{0}, now};
    steps.push_back(work);
  }
  return steps;
}

TEST(Stalls, WhatRecursInEveryStepIsNone) {
  EXPECT_TRUE(profiler::find_stalls(forwards({{10, 10, 10, 40}, {10, 10, 10, 41}, {10, 10, 10, 42}})).empty());
  const std::vector<Stall> once = profiler::find_stalls(forwards({{10, 10, 10, 10}, {10, 10, 10, 40}, {10, 10, 10, 10}}));
  ASSERT_EQ(once.size(), 1U);
  EXPECT_EQ(once[0].step, 1);
  EXPECT_EQ(once[0].work, 3);
  EXPECT_EQ(once[0].typical, std::chrono::milliseconds{10});
  EXPECT_EQ(once[0].price, std::chrono::milliseconds{30});
  EXPECT_FALSE(once[0].is_hidden());
}

TEST(Stalls, NeedPeersAndMoreThanTheirSpread) {
  EXPECT_TRUE(profiler::find_stalls({}).empty());
  EXPECT_TRUE(profiler::find_stalls(forwards({{}, {10}, {40}})).empty());
  EXPECT_TRUE(profiler::find_stalls(forwards({{10, 13, 16, 19, 22, 25, 40}})).empty()) << "6 * 1.4826 * 6 ms above 19 ms";
  EXPECT_EQ(profiler::find_stalls(forwards({{10, 13, 16, 19, 22, 25, 90}})).size(), 1U);
  std::vector<int> many(300, 10);
  many[7] = 22;
  EXPECT_TRUE(profiler::find_stalls(forwards({many})).empty()) << "12 ms are less than 0.5 % of 3012 ms";
  many[7] = 27;
  EXPECT_EQ(profiler::find_stalls(forwards({many})).size(), 1U);
}

// A device whose send blocks until a neighbour's long action has ended starts late: that wait is a part of the long action's price.
TEST(Stalls, ALateStartAfterALongActionIsItsConsequence) {
  const auto ms = [](int count) { return Nanoseconds{std::chrono::milliseconds{count}}; };
  profiler::StepWork step;
  const auto add = [&](int device, int microbatch, int start, int end) {
    profiler::Work work;
    work.device = device;
    work.tag = {.step = 0, .stage = device, .microbatch = microbatch, .layer = -1, .replica = 0};
    work.start = ms(start);
    work.end = ms(end);
    step.works.push_back(work);
  };
  for (int i = 0; i < 8; ++i) {  // device 1 stalls in micro-batch 2 until 100, device 0 in its send of micro-batch 3
    const int late = i < 4 ? 0 : 60;
    add(0, i, 10 * i + late, 10 * i + 10 + late);
    add(1, i, i <= 2 ? 10 * i + 10 : 10 * i + 70, i < 2 ? 10 * i + 20 : 10 * i + 80);
  }
  std::ranges::stable_sort(step.works, {}, &profiler::Work::start);
  std::map<int, int> last;
  std::map<std::pair<int, int>, int> at;
  for (int w = 0; w < static_cast<int>(step.works.size()); ++w) {
    const profiler::Work& work = step.works[as_index(w)];
    if (last.contains(work.device)) step.edges.push_back({last[work.device], w, EdgeKind::order});
    last[work.device] = w;
    at[{work.device, work.tag.microbatch}] = w;
  }
  for (int i = 0; i < 8; ++i) step.edges.push_back({at[{0, i}], at[{1, i}], EdgeKind::data});
  step.window = {0, ms(0), ms(150)};
  const std::vector<Stall> stalls = profiler::find_stalls({step});
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_EQ(stalls[0].kind, Stall::Kind::longer);
  EXPECT_EQ(stalls[0].work, (at[{1, 2}]));
  EXPECT_EQ(stalls[0].price, ms(60)) << "without it, device 0 would not have waited";
}

}  // namespace
}  // namespace mptune::planner
