// Causes of idle on simulated steps: the trouble is planted in the profile or the durations, the answer is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/schedule/schedule.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/replay.h"
#include "tests/planner/profiles.h"
#include "tests/support/cases.h"

namespace mptune::planner {
namespace {

using testing::make_profile;
using testing::ones;
using testing::ProfileShape;
using testing::scheduled;
using testing::stages_of;

constexpr double kTolerance = 50e-9;  // some roundings to whole nanoseconds

double seconds(Nanoseconds time) {
  return static_cast<double>(time.count()) * 1e-9;
}

std::vector<profiler::DeviceBreakdown> devices_of(const Trace& trace, std::size_t step = 0) {
  return profiler::break_down(trace).steps.at(step).devices;
}

// Another step of the same work with other durations, behind the ones that `all` has.
void append_step(Trace& all, const Trace& step, std::vector<Nanoseconds> durations) {
  Trace next = profiler::replay(step, durations);
  const Nanoseconds offset = all.steps.empty() ? Nanoseconds{0} : all.steps.back().end + Nanoseconds{1000};
  const auto number = static_cast<int>(all.steps.size());
  Nanoseconds end{0};
  for (const Event& event : next.events) end = std::max(end, event.end());
  std::vector<int> order(next.events.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return next.events[as_index(a)].start < next.events[as_index(b)].start; });
  std::vector<int> place(order.size());
  if (all.steps.empty()) {
    all = next;
    all.events.clear();
    all.edges.clear();
  }
  const auto first = static_cast<int>(all.events.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[as_index(order[i])] = first + static_cast<int>(i);
    Event event = next.events[as_index(order[i])];
    event.start += offset;
    all.events.push_back(event);
  }
  for (const Edge& edge : next.edges) all.edges.push_back({place[as_index(edge.producer)], place[as_index(edge.consumer)], edge.kind});
  all.steps.push_back({number, offset, offset + end});
}

std::vector<Nanoseconds> durations_of(const Trace& trace) {
  std::vector<Nanoseconds> durations;
  for (const Event& event : trace.events) durations.push_back(event.duration);
  return durations;
}

Trace simulated(const Profile& profile, int stages, int m, const char* schedule, int layers) {
  const Plan plan = scheduled(stages_of(layers, std::vector<int>(as_index(stages), 1), ones(m)), schedule);
  return simulate(plan, CostModel(profile)).trace;
}

TEST(IdleCauses, EvenStagesIdleAsTheScheduleMakesThem) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (int stages = 2; stages <= 5; ++stages) {
      const int m = stages + 3;
      const Trace trace = simulated(make_profile({.layers = stages, .devices = stages}), stages, m, schedule, stages);
      for (const profiler::DeviceBreakdown& device : devices_of(trace)) {
        EXPECT_NEAR(seconds(device.causes.structural), (stages - 1) * 0.003, kTolerance) << schedule << stages;
        EXPECT_EQ(device.causes.structural, device.idle);
      }
    }
  }
}

TEST(IdleCauses, ASlowLinkIsNamedOnDevicesThatItDoesNotTouch) {
  // naive on 4 devices: 6 copies of 10 ms one after the other; a device's own copies are its copy time, the others its copy wait.
  const Trace trace = simulated(make_profile({.layers = 4, .devices = 4, .latency_s = 0.010}), 4, 1, "naive", 4);
  const std::vector<profiler::DeviceBreakdown> devices = devices_of(trace);
  const int own[] = {2, 4, 4, 2};
  for (std::size_t d = 0; d < devices.size(); ++d) {
    EXPECT_NEAR(seconds(devices[d].copy), own[d] * 0.010, kTolerance);
    EXPECT_NEAR(seconds(devices[d].causes.copy_wait), (6 - own[d]) * 0.010, kTolerance) << d;
    EXPECT_NEAR(seconds(devices[d].causes.structural), 3 * 0.003, kTolerance) << d;
  }
}

TEST(IdleCauses, AnUnevenStageIsImbalance) {
  // The last of three stages takes 4 instead of 1: in 1f1b with many micro-batches it is always busy.
  const int m = 20;
  const Trace trace = simulated(make_profile({.layers = 3, .devices = 3}, {1, 1, 4}), 3, m, "1f1b", 3);
  const std::vector<profiler::DeviceBreakdown> devices = devices_of(trace);
  const double window = seconds(devices[0].window);
  EXPECT_NEAR(window, m * 0.012 + 2 * 0.003, 1e-6);
  for (std::size_t d = 0; d < 2; ++d) {
    EXPECT_NEAR(seconds(devices[d].causes.structural), 2 * 0.006, kTolerance) << "stages of the mean, 6 ms";
    EXPECT_NEAR(seconds(devices[d].causes.imbalance), window - m * 0.003 - 2 * 0.006, kTolerance);
  }
  EXPECT_EQ(devices[2].causes.imbalance.count(), 0);
  EXPECT_EQ(devices[2].causes.structural, devices[2].idle);
}

TEST(IdleCauses, ASlowReplicaIsAStraggler) {
  Profile profile = make_profile({.layers = 2, .devices = 6});
  profile.classes.push_back(profile.classes[0]);
  for (LayerCosts& layer : profile.classes[1].layers)
    for (LayerCost& cost : layer.by_samples)
      cost.forward = exactly(median(cost.forward) * 3), cost.backward = exactly(median(cost.backward) * 3);
  profile.devices[4].device_class = 1;
  const Plan plan = scheduled(stages_of(2, {3, 3}, ones(12)), "1f1b");
  const Trace trace = simulate(plan, CostModel(profile)).trace;
  const std::vector<profiler::DeviceBreakdown> devices = devices_of(trace);
  for (const std::size_t d : {0, 1, 2, 3, 5}) {
    const profiler::IdleCauses& causes = devices[d].causes;
    EXPECT_GT(causes.straggler, causes.imbalance + causes.jitter + causes.copy_wait + causes.host + causes.unexplained) << d;
    EXPECT_NEAR(seconds(causes.structural), 0.003, kTolerance) << d;
    EXPECT_EQ(causes.straggler + causes.structural, devices[d].idle) << d;
  }
}

TEST(IdleCauses, HandOversAreHostWhereTheyAreAndWhereTheyAreWaitedFor) {
  // naive: 6 actions on 3 devices one after the other, each behind 1 ms of hand-over.
  const Trace trace = simulated(make_profile({.layers = 3, .devices = 3, .action_s = 0.001}), 3, 1, "naive", 3);
  for (const profiler::DeviceBreakdown& device : devices_of(trace)) {
    EXPECT_NEAR(seconds(device.causes.host), 6 * 0.001, kTolerance);
    EXPECT_NEAR(seconds(device.causes.structural), 2 * 0.003, kTolerance);
  }
}

TEST(IdleCauses, WhatChangesFromStepToStepIsJitter) {
  const Trace step = simulated(make_profile({.layers = 4, .devices = 4}), 4, 6, "1f1b", 4);
  Trace all;
  for (int s = 0; s < 9; ++s) {
    std::vector<Nanoseconds> durations = durations_of(step);
    // In one step the second device is held up in one forward.
    if (s == 4) {
      for (std::size_t i = 0; i < durations.size(); ++i) {
        const Event& event = step.events[i];
        const Tag& tag = step.tags[as_index(event.tag)];
        if (event.device == 1 && event.kind == EventKind::forward && tag.microbatch == 2) durations[i] += Nanoseconds{20'000'000};
      }
    }
    append_step(all, step, durations);
  }
  const std::vector<profiler::DeviceBreakdown> usual = devices_of(all, 0);
  const std::vector<profiler::DeviceBreakdown> held = devices_of(all, 4);
  // Nobody gets the time back: the other three devices wait for all of it.
  const double added = seconds(all.steps[4].end - all.steps[4].start - (all.steps[0].end - all.steps[0].start));
  EXPECT_GT(added, 0.010);
  for (const std::size_t d : {0, 2, 3}) {
    EXPECT_EQ(usual[d].causes.jitter.count(), 0);
    EXPECT_NEAR(seconds(held[d].causes.jitter), added, 1e-6);
    EXPECT_EQ(held[d].causes.structural, usual[d].causes.structural);
  }
}

TEST(IdleCauses, SumsHoldOnRandomSchedules) {
  std::mt19937 random(11);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < testing::cases(10'000); ++round) {
    const int stages = draw(1, 4);
    const int replicas = draw(1, 2);
    const int m = draw(1, 4) * replicas;
    const int layers = stages + draw(0, 2);
    const Profile profile = make_profile(testing::random_shape(random, layers, stages * replicas), testing::random_factors(random, layers));
    Plan plan = stages_of(layers, std::vector<int>(as_index(stages), replicas), ones(m));
    const char* names[] = {"gpipe", "1f1b"};
    make_schedule(plan, names[draw(0, 1)]);
    if (draw(0, 2) == 0) plan.stages[0].recompute.mode = Recompute::Mode::all;
    const Trace step = simulate(plan, CostModel(profile)).trace;
    Trace all;
    for (int s = 0; s < 2; ++s) {
      std::vector<Nanoseconds> durations = durations_of(step);
      for (Nanoseconds& duration : durations) duration = duration * draw(50, 150) / 100;
      append_step(all, step, durations);
    }
    for (const profiler::StepBreakdown& broken : profiler::break_down(all).steps) {
      for (const profiler::DeviceBreakdown& device : broken.devices) {
        ASSERT_EQ(device.compute + device.copy + device.overlap + device.idle, device.window) << round;
        ASSERT_EQ(device.causes.total(), device.idle) << round;
        ASSERT_EQ(device.causes.unexplained.count(), 0) << round;
        for (const auto cause : {&profiler::IdleCauses::host, &profiler::IdleCauses::copy_wait, &profiler::IdleCauses::structural,
                                 &profiler::IdleCauses::imbalance, &profiler::IdleCauses::straggler, &profiler::IdleCauses::jitter})
          ASSERT_GE((device.causes.*cause).count(), 0) << round;
      }
    }
  }
}

}  // namespace
}  // namespace mptune::planner
