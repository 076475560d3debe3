// A recorded step of two branches and a head on three devices: the branches exchange nothing.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kBranchesBatch = 4, kBranchesMicrobatches = 2;
constexpr int kFirstEnd = 9, kSecondEnd = 18;  // layers of the branches; the head is the last one

struct RecordedBranches {
  RecordedBranches() {
    Model model = load_model("late-fusion:width=4,classes=5", "2x3x32x32", 0).model;
    PlanOptions options;
    options.devices = device_names(3);
    options.batch = kBranchesBatch;
    options.layers = model.size();
    options.cuts = {kFirstEnd, kSecondEnd};
    options.microbatches = kBranchesMicrobatches;
    const Plan plan = make_plan(options);
    const Batch batch = synthetic_batch(model.sample(), kBranchesBatch, 1);
    Pipeline pipeline(std::move(model), plan, {}, shared_core_devices(plan));
    HostCollector collector(pipeline.trace_devices());
    collector.start();
    pipeline.record(&collector);
    (void)pipeline.step(batch.inputs, batch.target);
    pipeline.record(nullptr);
    trace = collector.stop();
  }

  [[nodiscard]] const Event& event(int index) const { return trace.events.at(as_index(index)); }
  [[nodiscard]] const Tag& tag(const Event& event) const { return trace.tags.at(as_index(event.tag)); }
  [[nodiscard]] const Copy& copy(const Event& event) const { return trace.copies.at(as_index(event.detail)); }

  /// (kind, stage, layer, micro-batch) of the events at the other ends of a copy's data edges.
  using Leaf = std::tuple<EventKind, int, int, int>;
  [[nodiscard]] std::multiset<Leaf> ends(int copy, int Edge::*from, int Edge::*to) const {
    std::multiset<Leaf> leaves;
    for (const Edge& edge : trace.edges) {
      if (edge.kind != EdgeKind::data || edge.*from != copy) continue;
      const Event& other = event(edge.*to);
      leaves.emplace(other.kind, tag(other).stage, tag(other).layer, tag(other).microbatch);
    }
    return leaves;
  }

  Trace trace;
};

TEST(Branches, SendTheirFeaturesToTheHeadAndGetTheirGradientsBack) {
  const RecordedBranches step;
  std::map<std::tuple<int, int, bool>, int> sent;  // by source, destination, gradient
  for (const Event& event : step.trace.events) {
    if (event.kind != EventKind::copy) continue;
    const Copy& copy = step.copy(event);
    ++sent[{copy.source, copy.destination, copy.gradient}];
    EXPECT_EQ(copy.bytes, 4 * 32 * kBranchesBatch / kBranchesMicrobatches) << "a feature is 32 numbers";
    EXPECT_EQ(step.trace.names.at(as_index(event.name)), copy.gradient ? "copy gradient" : "copy activation");
  }
  const int count = kBranchesMicrobatches;
  EXPECT_EQ(sent, (decltype(sent){{{0, 2, false}, count}, {{1, 2, false}, count}, {{2, 0, true}, count}, {{2, 1, true}, count}}));
}

// A copy waits for the last layer of the stage that made what it sends; the first layer of the stage that reads it waits for the copy.
TEST(Branches, CopiesStandBetweenWhoMakesAndWhoReads) {
  const RecordedBranches step;
  using Leaves = std::multiset<RecordedBranches::Leaf>;
  int copies = 0;
  for (int i = 0; i < static_cast<int>(step.trace.events.size()); ++i) {
    const Event& event = step.event(i);
    if (event.kind != EventKind::copy) continue;
    ++copies;
    const Copy& copy = step.copy(event);
    const int m = step.tag(event).microbatch, branch = copy.gradient ? copy.destination : copy.source;
    const int branch_layer = branch == 0 ? kFirstEnd - 1 : kSecondEnd - 1;
    const EventKind kind = copy.gradient ? EventKind::backward : EventKind::forward;
    const Leaves of_branch{{kind, branch, branch_layer, m}}, of_head{{kind, 2, kSecondEnd, m}};
    EXPECT_EQ(step.ends(i, &Edge::consumer, &Edge::producer), copy.gradient ? of_head : of_branch);
    EXPECT_EQ(step.ends(i, &Edge::producer, &Edge::consumer), copy.gradient ? of_branch : of_head);
  }
  EXPECT_EQ(copies, 4 * kBranchesMicrobatches);
}

}  // namespace
}  // namespace mptune::testing
