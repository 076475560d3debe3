// Files of a pipeline's action times, written from simulated pipelines as Primus writes them, are read back as what they were.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "planner/schedule/schedule.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/stalls.h"
#include "profiler/trace/formats/action_times.h"
#include "profiler/trace/formats/any_trace.h"
#include "tests/planner/profiles.h"
#include "tests/support/files.h"

namespace mptune::planner {
namespace {

using nlohmann::json;
using profiler::read_action_timeline;
using testing::make_profile;

struct Pipeline {
  const char* schedule = "1f1b";
  int devices = 4;
  int chunks = 1;
  int microbatches = 8;
};

Trace simulated(const Pipeline& shape) {
  const int stages = shape.devices * shape.chunks;
  Plan plan = testing::stages_of(stages, std::vector<int>(as_index(stages), 1), testing::ones(shape.microbatches));
  const bool is_v = std::string(shape.schedule) == "zbv";
  plan.devices.resize(as_index(shape.devices));
  for (int s = 0; s < stages; ++s) plan.stages[as_index(s)].devices = {is_v && s >= shape.devices ? stages - 1 - s : s % shape.devices};
  const CostModel cost(
      make_profile({.layers = stages, .devices = shape.devices, .forward_s = 0.06, .backward_s = 0.12, .latency_s = 0.0005}));
  return simulate(testing::scheduled(plan, shape.schedule), cost).trace;
}

using TimedActionKey = std::tuple<EventKind, int, int, int, std::int64_t>;  // kind, device, stage, micro-batch, start rounded to 10 us

std::set<TimedActionKey> actions_of(const Trace& trace) {
  std::set<TimedActionKey> actions;
  for (const Event& event : trace.events) {
    if (event.tag < 0 || event.lane != kComputeLane || event.kind > EventKind::backward_weight) continue;
    const Tag& tag = trace.tags[as_index(event.tag)];
    actions.insert({event.kind, event.device, tag.stage, tag.microbatch, (event.start.count() + 5000) / 10000});
  }
  return actions;
}

/// What the files state.
struct Stated {
  bool lists = false;          ///< micro-batches and chunks of every action
  bool configuration = false;  ///< config.json
  int without_rank = -1;
  std::map<int, double> late_ms{};  ///< by rank: how much later than the others it began the iteration
};

class ActionFiles : public ::testing::Test {
 protected:
  [[nodiscard]] std::string write(const Trace& trace, const Pipeline& shape, const Stated& stated) const {
    const std::string folder = folder_.path("dump" + std::to_string(count_++));
    std::filesystem::create_directory(folder);
    std::vector<json> ranks(as_index(shape.devices));
    for (const Event& event : trace.events) {
      if (event.tag < 0 || event.lane != kComputeLane || event.kind > EventKind::backward_weight) continue;
      const std::string key = event.kind == EventKind::forward ? "fwd" : event.kind == EventKind::backward_weight ? "wgrad" : "bwd";
      const Tag& tag = trace.tags[as_index(event.tag)];
      const double late = stated.late_ms.contains(event.device) ? stated.late_ms.at(event.device) : 0;
      json& rank = ranks[as_index(event.device)]["3"];
      rank[key + "_start"].push_back(static_cast<double>(event.start.count()) / 1e6 - late);
      rank[key + "_end"].push_back(static_cast<double>(event.end().count()) / 1e6 - late);
      if (!stated.lists) continue;
      rank[key + "_minibatch"].push_back(tag.microbatch);
      rank[key + "_chunk"].push_back(tag.stage / shape.devices);
    }
    for (int rank = 0; rank < shape.devices; ++rank) {
      if (rank == stated.without_rank) continue;
      ranks[as_index(rank)]["3"]["total"] = 1.0;
      ranks[as_index(rank)]["3"]["memory"] = 1.5 + rank;
      std::ofstream(folder + "/pp_rank_" + std::to_string(rank) + ".json") << ranks[as_index(rank)];
    }
    if (stated.configuration)
      std::ofstream(folder + "/config.json") << json{
          {"pp_size", shape.devices}, {"vp_size", shape.chunks}, {"num_mbs", shape.microbatches}};
    return folder;
  }

 private:
  testing::TestFolder folder_{"actions"};
  mutable int count_ = 0;
};

const std::vector<Pipeline> kPipelines = {{"1f1b", 4, 1, 8},         {"1f1b", 2, 1, 5},        {"gpipe", 3, 1, 7},
                                          {"gpipe", 2, 1, 8},        {"interleaved", 4, 2, 8}, {"interleaved", 2, 3, 6},
                                          {"interleaved", 8, 2, 16}, {"interleaved", 3, 4, 9}};

TEST_F(ActionFiles, TellTheirStagesAndMicrobatches) {
  for (const Pipeline& shape : kPipelines) {
    const Trace trace = simulated(shape);
    for (const Stated& stated :
         {Stated{}, Stated{.configuration = true}, Stated{.lists = true}, Stated{.lists = true, .configuration = true}}) {
      SCOPED_TRACE(std::string(shape.schedule) + " " + std::to_string(shape.devices) + "x" + std::to_string(shape.chunks) + ", lists " +
                   std::to_string(stated.lists) + ", configuration " + std::to_string(stated.configuration));
      const profiler::ActionTimeline read = read_action_timeline({write(trace, shape, stated)});
      EXPECT_EQ(actions_of(read.trace), actions_of(trace));
      EXPECT_EQ(read.trace.quality, TraceQuality{});
      EXPECT_TRUE(read.missing.empty());
      ASSERT_EQ(read.trace.steps.size(), 1U);
      EXPECT_EQ(read.trace.steps[0].step, 3);
      EXPECT_EQ(read.trace.devices[1].name, "rank:1");
      EXPECT_EQ(read.trace.devices[1].peak_bytes, std::int64_t{5} << 29);
      const auto data = std::ranges::count(read.trace.edges, EdgeKind::data, &Edge::kind);
      EXPECT_EQ(data, 2 * shape.microbatches * (shape.devices * shape.chunks - 1));
    }
  }
}

TEST_F(ActionFiles, KnowSplitBackwardsAndChunksInAV) {
  for (const Pipeline& shape : {Pipeline{"zb1p", 4, 1, 8}, Pipeline{"zbv", 4, 2, 8}, Pipeline{"zbv", 2, 2, 6}}) {
    SCOPED_TRACE(shape.schedule);
    const Trace trace = simulated(shape);
    const profiler::ActionTimeline read = read_action_timeline({write(trace, shape, {.lists = true})});
    EXPECT_EQ(actions_of(read.trace), actions_of(trace));
    EXPECT_EQ(read.trace.quality, TraceQuality{});
  }
}

// The zero-bubble runtime of Primus does not say whose weight gradients they are.
TEST_F(ActionFiles, WeightGradientsAreThoseOfTheirBackward) {
  const Pipeline shape{"zb1p", 4, 1, 8};
  const Trace trace = simulated(shape);
  const profiler::ActionTimeline read = read_action_timeline({write(trace, shape, {.configuration = true})});
  EXPECT_EQ(actions_of(read.trace), actions_of(trace));
  EXPECT_EQ(read.trace.quality, TraceQuality{});
}

// Every rank's times count from when it began the iteration itself.
TEST_F(ActionFiles, ClocksFollowFromDependencies) {
  const Pipeline shape{"1f1b", 4, 1, 8};
  const Trace trace = simulated(shape);
  const Trace read = read_action_timeline({write(trace, shape, {.late_ms = {{1, 30.0}, {3, 7.0}}})}).trace;
  EXPECT_EQ(read.quality, TraceQuality{});
  for (const Edge& edge : read.edges) EXPECT_LE(read.events[as_index(edge.producer)].end(), read.events[as_index(edge.consumer)].start);
  EXPECT_NEAR(static_cast<double>(read.steps[0].end.count()), static_cast<double>(trace.steps.at(0).end.count()), 2e6);
}

TEST_F(ActionFiles, SayWhichRanksAreMissing) {
  const Pipeline shape{"1f1b", 4, 1, 8};
  const Trace trace = simulated(shape);
  const profiler::ActionTimeline inner = read_action_timeline({write(trace, shape, {.without_rank = 2})});
  EXPECT_EQ(inner.missing, std::vector<int>{2});
  EXPECT_EQ(inner.trace.devices.size(), 3U);
  EXPECT_EQ(inner.trace.quality.unmatched, 16) << "forwards of stage 3, backwards of stage 1";
  EXPECT_TRUE(read_action_timeline({write(trace, shape, {.without_rank = 3})}).missing.empty()) << "nothing says that there is a fourth";
  const std::vector<int> last = read_action_timeline({write(trace, shape, {.configuration = true, .without_rank = 3})}).missing;
  EXPECT_EQ(last, std::vector<int>{3});
}

// AMD-AGI/Primus, pp8: stalls of 240 to 280 ms, of which two make their step longer than its neighbours are.
TEST(PrimusTimeline, NaturalStallsCostWhatTheirStepsAreLonger) {
  const std::string path = testing::shared_data("primus/timeline_1f1b_pp8.csv");
  if (path.empty()) {
    GTEST_SKIP() << "the shared data are absent; set MPTUNE_DATA_DIR";
  }
  const Trace trace = profiler::read_any_trace(path);
  EXPECT_EQ(trace.quality, TraceQuality{});
  const std::vector<profiler::StepWork> steps = profiler::step_works(trace);
  ASSERT_EQ(steps.size(), 20U);
  const auto length = [&](std::size_t step) { return static_cast<double>((steps[step].window.end - steps[step].window.start).count()); };
  std::map<int, profiler::Stall> found;
  for (const profiler::Stall& stall : profiler::find_stalls(steps))
    if (stall.step > 0) found.emplace(steps[as_index(stall.step)].window.step, stall);
  const std::map<int, std::pair<int, int>> expected = {{11, {0, 7}}, {15, {1, 4}}, {16, {2, 8}}, {18, {3, 10}}};  // rank, micro-batch
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [step, who] : expected) {
    SCOPED_TRACE(step);
    const profiler::Stall& stall = found.at(step);
    const profiler::Work& work = steps[as_index(stall.step)].works[as_index(stall.work)];
    EXPECT_EQ(std::pair(work.device, work.tag.microbatch), who);
    EXPECT_EQ(work.kind, EventKind::forward);
    EXPECT_GT(stall.excess(), std::chrono::milliseconds{205});
    const std::size_t at = as_index(stall.step);
    const double usual = step == 15 ? length(at - 1) : (length(at - 1) + length(at + 1)) / 2;
    EXPECT_NEAR(static_cast<double>(stall.price.count()), length(at) - usual, 0.005 * length(at));
  }
  EXPECT_TRUE(found.at(11).is_hidden());
  EXPECT_TRUE(found.at(15).is_hidden());
}

}  // namespace
}  // namespace mptune::planner
