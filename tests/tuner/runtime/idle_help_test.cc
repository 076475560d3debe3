// That helping changes no bit is shown by transparency_test.cc; here: who computes weight gradients and when, and what a recording says.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "planner/schedule/schedule.h"
#include "planner/search/finish/fuse_weights.h"
#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/collect/host_collector.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr const char* kHelpedModel = "mlp:layers=8,width=256";
constexpr int kHelpedBatch = 64;

/// Stage 0 has one layer and is soon done; stage 1 has all its weight gradients left then.
Plan uneven_plan(bool help) {
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = kHelpedBatch;
  options.layers = load_model(kHelpedModel, "", 0).model.size();
  options.cuts = {1};
  options.microbatches = 4;
  options.actions = {planner::actions_from_text("0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3", "row"),
                     planner::actions_from_text("1F0 1I0 1F1 1I1 1F2 1I2 1F3 1I3 1W0 1W1 1W2 1W3", "row")};
  Plan plan = make_plan(options);
  plan.options.idle_devices_help = help;
  return plan;
}

struct RecordedStep {
  Trace trace;
  std::vector<std::int64_t> bytes;  ///< per device, after the step
};

RecordedStep record_step(const Plan& plan) {
  const Model model = load_model(kHelpedModel, "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kHelpedBatch, 1);
  const auto devices = shared_core_devices(plan);
  Pipeline pipeline(load_model(kHelpedModel, "", 0).model, plan, {}, devices);
  (void)pipeline.step(batch.inputs, batch.target);
  HostCollector collector(pipeline.trace_devices());
  collector.start();
  pipeline.record(&collector);
  const auto start = std::chrono::steady_clock::now();
  (void)pipeline.step(batch.inputs, batch.target);
  collector.add_step(1, start, std::chrono::steady_clock::now());
  pipeline.record(nullptr);
  RecordedStep recorded{collector.stop(), {}};
  for (const auto& device : devices) recorded.bytes.push_back(device->current_bytes());
  return recorded;
}

/// Weight gradients by the device that computed them and the stage that they belong to.
std::map<std::pair<int, int>, int> weight_gradients(const Trace& trace) {
  std::map<std::pair<int, int>, int> counts;
  for (const Event& event : trace.events)
    if (event.kind == EventKind::backward_weight) ++counts[{event.device, trace.tags[as_index(event.tag)].stage}];
  return counts;
}

TEST(IdleHelp, WithoutItEveryDeviceComputesItsOwn) {
  const auto counts = weight_gradients(record_step(uneven_plan(false)).trace);
  EXPECT_FALSE(counts.contains({0, 1}));
  EXPECT_FALSE(counts.contains({1, 0}));
  EXPECT_GT(counts.at({1, 1}), 0);
}

TEST(IdleHelp, TheTraceShowsWhoseWorkRanWhere) {
  std::int64_t helped = 0;
  for (int round = 0; round < 10; ++round) {
    const RecordedStep recorded = record_step(uneven_plan(true));
    for (const auto& [place, count] : weight_gradients(recorded.trace)) helped += place.first != place.second ? count : 0;
    std::map<std::pair<int, int>, Nanoseconds> lane_end;
    for (const Event& event : recorded.trace.events) {
      auto& end = lane_end[{event.device, event.lane}];
      EXPECT_GE(event.start, end) << "a device does two things at once";
      end = event.end();
    }
    for (const Edge& edge : recorded.trace.edges)
      EXPECT_LE(recorded.trace.events[as_index(edge.producer)].start, recorded.trace.events[as_index(edge.consumer)].start);
    const profiler::Breakdown breakdown = profiler::break_down(recorded.trace);
    for (const profiler::DeviceBreakdown& device : breakdown.steps.at(0).devices) {
      EXPECT_EQ(device.compute + device.copy + device.overlap + device.idle, device.window);
      EXPECT_EQ(device.causes.total(), device.idle);
    }
  }
  EXPECT_GT(helped, 0) << "device 0 has nothing else to do while device 1 has 28 weight gradients left";
}

/// By event: micro-batches whose input gradients of the same stage it waits for.
std::map<int, std::set<int>> awaited_input_gradients(const Trace& trace) {
  std::map<int, std::set<int>> awaited;
  for (const Edge& edge : trace.edges) {
    const Event& from = trace.events[as_index(edge.producer)];
    if (edge.kind != EdgeKind::data || from.kind != EventKind::backward_input) continue;
    if (trace.events[as_index(edge.consumer)].kind != EventKind::backward_weight) continue;
    awaited[edge.consumer].insert(trace.tags[as_index(from.tag)].microbatch);
  }
  return awaited;
}

TEST(IdleHelp, FusedWeightGradientsWaitForAllTheirInputGradients) {
  std::size_t helped = 0;
  for (int round = 0; round < 5; ++round) {
    const Trace trace = record_step(planner::with_fused_weights(uneven_plan(true), {1, 2})).trace;
    for (const auto& [event, microbatches] : awaited_input_gradients(trace)) {
      const Tag& tag = trace.tags[as_index(trace.events[as_index(event)].tag)];
      if (tag.stage != 1) continue;
      EXPECT_EQ(microbatches, (std::set<int>{tag.microbatch, tag.microbatch + 1}));
      ++helped;
    }
  }
  EXPECT_GT(helped, 0U);
}

TEST(IdleHelp, MemoryIsChargedToTheStagesDevice) {
  constexpr std::int64_t kWeight = 256 * 256 * 4;
  const auto alone = record_step(uneven_plan(false)).bytes;
  for (int round = 0; round < 5; ++round) {
    const auto helped = record_step(uneven_plan(true)).bytes;
    EXPECT_LT(helped[0], alone[0] + kWeight) << "device 0 pays for gradients of stage 1";
    EXPECT_GT(helped[1], alone[1] - kWeight);
  }
}

TEST(WeightGradients, RunAtOnceNearTheCap) {
  const std::string model = "mlp:layers=6,width=64";
  const int layers = load_model(model, "", 0).model.size();
  const Batch batch = synthetic_batch(load_model(model, "", 0).model.sample(), 2048, 0);
  PlanOptions options;
  options.devices = device_names(1);
  options.batch = 2048;
  options.layers = layers;
  options.microbatches = 8;
  std::string late, at_once;
  for (int i = 0; i < 8; ++i) {
    const std::string m = std::to_string(i);
    at_once += "0F" + m + " 0I" + m + " 0W" + m + " ";
    late += "0F" + m + " 0I" + m + " ";
  }
  for (int i = 0; i < 8; ++i) late += "0W" + std::to_string(i) + " ";
  const auto peak = [&](const std::string& row, std::int64_t cap) {
    options.actions = {planner::actions_from_text(row, "row")};
    const Plan plan = make_plan(options);
    PipelineOptions capped;
    if (cap > 0) capped.memory_bytes = {{plan.devices[0], cap}};
    Pipeline pipeline(load_model(model, "", 0).model, plan, capped, shared_core_devices(plan));
    (void)pipeline.step(batch.inputs, batch.target);
    return pipeline.peak_bytes()[0];
  };
  const std::int64_t least = peak(at_once, 0), most = peak(late, 0);
  ASSERT_GT(most, 2 * least);
  EXPECT_LE(peak(late, (least + most) / 2), (least + most) / 2);
}

}  // namespace
}  // namespace mptune::testing
