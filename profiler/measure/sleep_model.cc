#include "profiler/measure/sleep_model.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "profiler/device/device_worker.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/model/split_backward.h"
#include "profiler/statistics/samples.h"

namespace mptune::profiler {

namespace {

/// Seconds by micro-batch size: linear between the sizes of the profile, proportional beyond them.
class Curve {
 public:
  Curve(const LayerCosts& costs, Samples LayerCost::*what) {
    for (const LayerCost& cost : costs.by_samples)
      if (!(cost.*what).empty()) points_.emplace_back(cost.samples, median(cost.*what));
  }
  [[nodiscard]] bool empty() const { return points_.empty(); }
  [[nodiscard]] SteadyClock::duration at(std::int64_t samples) const {
    const auto x = static_cast<double>(samples);
    auto upper = std::lower_bound(points_.begin(), points_.end(), x, [](const auto& point, double v) { return point.first < v; });
    double seconds = 0;
    if (upper == points_.end()) {
      seconds = points_.back().second * x / points_.back().first;
    } else if (upper == points_.begin()) {
      seconds = upper->second * x / upper->first;
    } else {
      const auto lower = std::prev(upper);
      seconds = lower->second + (upper->second - lower->second) * (x - lower->first) / (upper->first - lower->first);
    }
    return std::chrono::ceil<SteadyClock::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  std::vector<std::pair<double, double>> points_;
};

/// Within a backward pass each layer's deadline counts from the deadline before it. So time that the engine spends between two layers is
/// part of their sleeps, and the pass takes the sum of its layers.
SteadyClock::time_point backward_deadline(SteadyClock::duration duration) {
  struct Last {
    int pass = -1;
    SteadyClock::time_point deadline;
  };
  thread_local Last last;
  const int pass = torch::autograd::get_current_graph_task_id();
  const auto start = last.pass == pass ? last.deadline : SteadyClock::now();
  last = {pass, start + duration};
  return last.deadline;
}

/// How long a backward sleeps, whole and in its two parts.
struct SleepTimes {
  SteadyClock::duration backward{};
  SteadyClock::duration input{};
  SteadyClock::duration weight{};
};

class SleepingWeightGradient final : public WeightGradient {
 public:
  SleepingWeightGradient(at::Tensor weight, SteadyClock::duration duration, std::function<void(at::Tensor)> add)
      : WeightGradient(std::move(weight)), duration_(duration), add_(std::move(add)) {}

  [[nodiscard]] double multiplications() const override { return static_cast<double>(duration_.count()); }
  void run() override {
    const at::NoGradGuard no_grad;
    const auto deadline = SteadyClock::now() + duration_;
    add_(at::zeros({1}));
    sleep_until(deadline);
  }
  [[nodiscard]] std::vector<at::Tensor> held() const override { return {}; }

 private:
  SteadyClock::duration duration_;
  std::function<void(at::Tensor)> add_;
};

/// Edges: input, weight.
class SleepNode final : public SplittableNode {
 public:
  SleepNode(const at::Tensor& input, const at::Tensor& weight, const SleepTimes& times) : times_(times), width_(input.size(1)) {
    set_next_edges(torch::autograd::collect_next_edges(input, weight));
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const auto deadline = backward_deadline(split_ ? times_.input : times_.backward);
    torch::autograd::variable_list made(2);
    if (task_should_compute_output(0)) made[0] = at::empty({gradients[0].size(0), width_});
    if (task_should_compute_output(1)) made[1] = at::zeros({1});
    sleep_until(deadline);
    return made;
  }
  [[nodiscard]] std::size_t weight_edge() const override { return 1; }
  [[nodiscard]] std::unique_ptr<WeightGradient> set_aside(const at::Tensor& weight, std::function<void(at::Tensor)> add) override {
    split_ = true;
    return std::make_unique<SleepingWeightGradient>(weight, times_.weight, std::move(add));
  }

 private:
  SleepTimes times_;
  std::int64_t width_;
  bool split_ = false;
};

class SleepLayer final : public Layer {
 public:
  /// The output has `width` numbers per sample, and `carried` more that need no gradient.
  SleepLayer(std::string name, const LayerCosts& costs, std::int64_t width, std::int64_t carried)
      : name_(std::move(name)),
        forward_(costs, &LayerCost::forward),
        backward_(costs, &LayerCost::backward),
        input_(costs, &LayerCost::backward_input),
        weight_gradient_(costs, &LayerCost::backward_weight),
        width_(width),
        carried_(carried),
        weight_(at::zeros({1}).requires_grad_()) {}

  Tensors forward(const Tensors& inputs, const RunContext&) override {
    const std::int64_t samples = inputs[0].size(0);
    const auto deadline = SteadyClock::now() + forward_.at(samples);
    Tensors outputs{at::zeros({samples, width_})};
    if (at::GradMode::is_enabled()) {
      const std::shared_ptr<SleepNode> node(new SleepNode(inputs[0], weight_, backward_times(samples)), torch::autograd::deleteNode);
      torch::autograd::set_history(outputs[0], node);
    }
    if (carried_ > 0) outputs.push_back(at::zeros({samples, carried_}));
    sleep_until(deadline);
    return outputs;
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{name_ + ".weight", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override {
    auto copy = std::make_unique<SleepLayer>(*this);
    copy->weight_ = at::zeros({1}).requires_grad_();
    return copy;
  }
  [[nodiscard]] std::string kind() const override { return "Sleep"; }

 private:
  [[nodiscard]] SleepTimes backward_times(std::int64_t samples) const {
    const SteadyClock::duration whole = backward_.at(samples);
    if (input_.empty() || weight_gradient_.empty()) return {whole, whole, {}};
    return {whole, input_.at(samples), weight_gradient_.at(samples)};
  }

  std::string name_;
  Curve forward_;
  Curve backward_;
  Curve input_;
  Curve weight_gradient_;
  std::int64_t width_;
  std::int64_t carried_;
  at::Tensor weight_;
};

/// Median time of a forward and a backward of one layer beyond its sleeps [s]. The processor sleeps before each, as a waiting stage's does.
double measured_action_seconds() {
  constexpr double kSleep = 2e-3;
  LayerCosts costs;
  LayerCost cost;
  cost.samples = 1;
  cost.forward = cost.backward = exactly(kSleep);
  costs.by_samples.push_back(cost);
  SleepLayer layer("", costs, 1, 0);
  std::vector<double> seconds;
  for (int repeat = 0; repeat < 15; ++repeat) {
    const at::Tensor input = at::zeros({1, 1}).requires_grad_();
    const auto start = SteadyClock::now();
    const Tensors outputs = layer.forward({input}, {});
    torch::autograd::Engine::get_default_engine().execute({torch::autograd::impl::gradient_edge(outputs[0])}, {at::ones_like(outputs[0])},
                                                          false, false, true);
    seconds.push_back((std::chrono::duration<double>(SteadyClock::now() - start).count() - 2 * kSleep) / 2);
  }
  return median(std::move(seconds));
}

}  // namespace

double sleep_action_seconds() {
  static const double seconds = [] {
    double measured = 0;
    DeviceWorker worker(make_device(parse_device("sleep:0")));
    worker.run([&] { measured = measured_action_seconds(); });
    return measured;
  }();
  return seconds;
}

Model make_sleep_model(const Profile& profile) {
  std::vector<ModelLayer> layers;
  const auto& costs = profile.classes.at(0).layers;
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    std::int64_t bytes = 0, carried_bytes = 0;
    for (const LayerEdge& edge : profile.edges)
      if (edge.from == static_cast<int>(i)) (edge.needs_gradient ? bytes : carried_bytes) += edge.bytes_per_sample;
    layers.push_back(
        {profile.layers[i].name, profile.layers[i].modules,
         std::make_unique<SleepLayer>(profile.layers[i].name, costs[i], std::max<std::int64_t>(1, bytes / 4), carried_bytes / 4)});
  }
  const SampleDescription sample{.inputs = {{.shape = {1}}}, .target = {.shape = {1}}};
  // The last layer's cost includes the loss, so the loss itself takes no time.
  Loss loss = Loss::custom("none", [](const Tensors& outputs, const at::Tensor&) { return outputs[0].narrow(1, 0, 1).sum().mul(0); });
  return {profile.model, std::move(layers), std::move(loss), sample, profile.batch};
}

}  // namespace mptune::profiler
