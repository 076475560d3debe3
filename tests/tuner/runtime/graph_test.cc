// Random models whose stages read what stages long before them computed: the un-pipelined step's loss and gradients.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/layers/model_flow.h"
#include "random_graph.h"
#include "reference.h"
#include "stage_loop.h"
#include "tuner/runtime/graph/stage_links.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kGraphBatch = 8;
constexpr int kGraphCases = 600;

/// Kinds of exchange that the cases are to cover.
struct Exchanges {
  int over_a_stage = 0;   ///< links that leave out stages between
  int three_readers = 0;  ///< tensors sent to three stages or more
  int twice = 0;          ///< tensors that a stage takes at two places
  int of_the_batch = 0;   ///< stages behind the first that read inputs of the model
  int batch_alone = 0;    ///< those that read nothing else
  int unread_behind = 0;  ///< stages that send nothing to any other
  int everything = 0;     ///< cuts of which it is not known what crosses them
  int handed_on = 0;      ///< tensors that a stage reads and sends to a later one
  int replicated = 0, recomputing = 0;
  std::set<std::string> schedules;

  void count(const profiler::ModelFlow& flow, const Plan& plan) {
    schedules.insert(plan.schedule);
    replicated += has_replicas(plan) ? 1 : 0;
    recomputing += std::ranges::any_of(plan.stages, [](const Stage& stage) { return stage.recompute != Recompute{}; }) ? 1 : 0;
    const auto links = tuner::stage_links(flow, plan.stages);
    const auto tensors = tuner::stage_tensors(flow, plan.stages);
    std::map<std::pair<int, int>, std::set<int>> sent_to;
    std::set<int> senders, receivers;
    for (const tuner::StageLink& link : links) {
      senders.insert(link.front);
      receivers.insert(link.back);
      over_a_stage += link.back > link.front + 1 ? 1 : 0;
      everything += link.everything ? 1 : 0;
      std::set<int> fronts;
      for (const auto& [front, back] : link.slots) {
        twice += fronts.insert(front).second ? 0 : 1;
        sent_to[{link.front, front}].insert(link.back);
        const int tensor = flow.at(plan.stages[as_index(link.front)].last_layer)[as_index(front)];
        handed_on += flow.tensors()[as_index(tensor)].maker < plan.stages[as_index(link.front)].first_layer ? 1 : 0;
      }
    }
    for (const auto& [sent, stages] : sent_to) three_readers += stages.size() > 2 ? 1 : 0;
    for (int s = 0; s < plan.num_stages(); ++s) {
      const bool reads_batch = !tensors[as_index(s)].batch.empty();
      of_the_batch += reads_batch ? 1 : 0;
      batch_alone += reads_batch && !receivers.contains(s) ? 1 : 0;
      unread_behind += s + 1 < plan.num_stages() && !senders.contains(s) ? 1 : 0;
    }
  }
};

class GraphCase {
 public:
  explicit GraphCase(std::mt19937& random) : random_(random), shape_(random_graph(random)) {
    while (!plan_) plan_ = possible_plan();
    for (Stage& stage : plan_->stages) stage.recompute = recompute(stage);
    plan_->options.idle_devices_help = below(4) == 0;
  }

  [[nodiscard]] const Plan& plan() const { return *plan_; }
  [[nodiscard]] const GraphShape& shape() const { return shape_; }
  [[nodiscard]] std::string text() const {
    std::string text = plan_->schedule + ", " + std::to_string(plan_->num_microbatches()) + " micro-batches, stages";
    for (const Stage& stage : plan_->stages)
      text += " " + std::to_string(stage.last_layer) + "x" + std::to_string(stage.devices.size()) + "r" +
              std::to_string(static_cast<int>(stage.recompute.mode));
    return text;
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<std::uint32_t>(count)); }

  std::optional<Plan> possible_plan() {
    struct Kind {
      const char* schedule;
      int per_device;
    };
    static const std::vector<Kind> kinds{{"gpipe", 1},       {"gpipe", 2}, {"1f1b", 1}, {"zb1p", 1},
                                         {"interleaved", 2}, {"list", 1},  {"list", 2}, {"zbv", 2}};
    const Kind kind = kinds[as_index(below(static_cast<int>(kinds.size())))];
    PlanOptions options;
    options.virtual_stages = kind.per_device;
    options.stages = (1 + below(3)) * kind.per_device;
    options.schedule = kind.schedule;
    options.batch = kGraphBatch;
    options.layers = static_cast<int>(shape_.layers.size());
    options.microbatches = 1 + below(5);
    if (options.stages > options.layers) return std::nullopt;
    options.cuts = cuts(options.layers, options.stages);
    int devices = options.stages / kind.per_device;
    if (kind.per_device == 1 && below(3) == 0) {
      for (int s = 0; s < options.stages; ++s) options.replicas.push_back(1 + below(2));
      devices = std::accumulate(options.replicas.begin(), options.replicas.end(), 0);
    }
    options.devices = device_names(devices);
    try {
      return make_plan(options);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  std::vector<int> cuts(int layers, int stages) {
    std::set<int> cuts;
    while (static_cast<int>(cuts.size()) + 1 < stages) cuts.insert(1 + below(layers - 1));
    return {cuts.begin(), cuts.end()};
  }

  Recompute recompute(const Stage& stage) {
    const int which = below(4);
    if (which < 2) return {};
    if (which == 2) return {Recompute::Mode::all, {}, {}};
    Recompute some{Recompute::Mode::some, {}, {}};
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
      if (below(2) == 0) some.layers.push_back(layer);
    if (below(2) == 0) some.microbatches = {0};
    return some.layers.empty() ? Recompute{} : some;
  }

  std::mt19937& random_;
  GraphShape shape_;
  std::optional<Plan> plan_;
};

/// Fails in one micro-batch, in the forward or in the backward.
class BreakingLayer final : public Layer {
 public:
  struct Switches {
    std::atomic<int> microbatch{-1};  ///< -1: does not fail
    bool in_backward = false;
  };
  BreakingLayer(std::shared_ptr<Layer> inner, std::shared_ptr<Switches> switches)
      : inner_(std::move(inner)), switches_(std::move(switches)) {}

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    if (!switches_->in_backward) break_in(context.microbatch);
    Tensors outputs = inner_->forward(inputs, context);
    for (const at::Tensor& output : outputs)
      if (output.defined() && output.requires_grad() && !output.is_leaf())
        output.register_hook([this, m = context.microbatch](const at::Tensor&) {
          if (switches_->in_backward) break_in(m);
        });
    return outputs;
  }
  [[nodiscard]] std::optional<TensorFlow> flow() const override { return inner_->flow(); }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return inner_->parameters(); }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return inner_->buffers(); }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<BreakingLayer>(inner_->clone(), switches_); }
  [[nodiscard]] std::string kind() const override { return inner_->kind(); }

 private:
  void break_in(int microbatch) const {
    if (switches_->microbatch == microbatch) throw std::runtime_error("broken on purpose");
  }

  std::shared_ptr<Layer> inner_;
  std::shared_ptr<Switches> switches_;
};

/// A step in which one layer fails; whoever waits for its tensors must not wait on.
void break_a_step(Pipeline& pipeline, BreakingLayer::Switches& switches, const Batch& batch, std::mt19937& random, int microbatches) {
  switches.in_backward = random() % 2 == 0;
  switches.microbatch = static_cast<int>(random() % static_cast<std::uint32_t>(microbatches));
  bool broken = false;
  try {
    (void)pipeline.step(batch.inputs, batch.target);
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("broken on purpose"));
    broken = true;
  }
  EXPECT_TRUE(broken || switches.in_backward) << "not every layer has a backward";
  switches.microbatch = -1;
}

/// The loop's layers do not say what they read: it is the chain of their forwards. Between two steps of the pipeline one fails.
void check_gradients(const GraphCase& graph, const Batch& batch, std::mt19937& random) {
  const StageLoop loop = run_stage_loop(graph_model(graph.shape(), false), graph.plan(), batch);
  const TensorsByName expected = sum_ascending(loop, graph.plan());
  Model model = graph_model(graph.shape());
  const auto switches = std::make_shared<BreakingLayer::Switches>();
  std::unique_ptr<Layer>& layer = model.layers()[random() % model.layers().size()].layer;
  layer = std::make_unique<BreakingLayer>(std::move(layer), switches);
  Pipeline pipeline(std::move(model), graph.plan(), {}, shared_core_devices(graph.plan()));
  (void)pipeline.step(batch.inputs, batch.target);
  break_a_step(pipeline, *switches, batch, random, graph.plan().num_microbatches());
  const StepResult result = pipeline.step(batch.inputs, batch.target);
  EXPECT_NEAR(result.loss, loop.loss, 1e-12 * std::max(1.0, std::abs(loop.loss)));
  for (const NamedTensor& parameter : pipeline.named_parameters()) {
    const at::Tensor gradient = parameter.tensor.grad();
    const auto sum = expected.find(parameter.name);
    if (sum == expected.end()) {
      EXPECT_TRUE(!gradient.defined() || gradient.count_nonzero().item<std::int64_t>() == 0) << parameter.name << " reaches no loss";
      continue;
    }
    ASSERT_TRUE(gradient.defined()) << parameter.name;
    EXPECT_TRUE(at::equal(gradient, sum->second)) << parameter.name;
  }
}

TEST(Graph, EveryPlanEqualsTheUnpipelinedStep) {
  std::mt19937 random(1), breaking(2);
  Exchanges seen;
  for (int i = 0; i < kGraphCases && !::testing::Test::HasFailure(); ++i) {
    const GraphCase graph(random);
    SCOPED_TRACE("case " + std::to_string(i) + ": " + graph.text());
    const Model model = graph_model(graph.shape());
    seen.count(profiler::ModelFlow(model.layers()), graph.plan());
    check_gradients(graph, synthetic_batch(model.sample(), kGraphBatch, static_cast<std::uint64_t>(i)), breaking);
  }
  for (const int count : {seen.over_a_stage, seen.three_readers, seen.twice, seen.of_the_batch, seen.batch_alone, seen.unread_behind,
                          seen.everything, seen.handed_on, seen.replicated, seen.recomputing})
    EXPECT_GT(count, 5);
  EXPECT_EQ(seen.schedules.size(), 6U);
}

}  // namespace
}  // namespace mptune::testing
