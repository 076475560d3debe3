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

#include "profiler/base/index.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/model/layers/split_backward.h"
#include "profiler/trace/statistics/samples.h"
#include "profiler/trace/values/profile_tensors.h"

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

/// Edges: the inputs, then the weight.
class SleepNode final : public SplittableNode {
 public:
  SleepNode(const Tensors& inputs, const at::Tensor& weight, const SleepTimes& times) : times_(times) {
    torch::autograd::edge_list edges;
    for (const at::Tensor& input : inputs) {
      edges.push_back(input.requires_grad() ? torch::autograd::impl::gradient_edge(input) : torch::autograd::Edge());
      sizes_.push_back(input.sizes().vec());
    }
    edges.push_back(torch::autograd::impl::gradient_edge(weight));
    set_next_edges(std::move(edges));
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    const auto deadline = backward_deadline(split_ ? times_.input : times_.backward);
    torch::autograd::variable_list made(sizes_.size() + 1);
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      if (task_should_compute_output(i)) made[i] = at::zeros(sizes_[i]);
    if (task_should_compute_output(sizes_.size())) made.back() = at::zeros({1});
    sleep_until(deadline);
    return made;
  }
  [[nodiscard]] std::size_t weight_edge() const override { return sizes_.size(); }
  [[nodiscard]] std::unique_ptr<WeightGradient> set_aside(const at::Tensor& weight, std::function<void(at::Tensor)> add) override {
    split_ = true;
    return std::make_unique<SleepingWeightGradient>(weight, times_.weight, std::move(add));
  }

 private:
  SleepTimes times_;
  std::vector<std::vector<std::int64_t>> sizes_;
  bool split_ = false;
};

/// How many numbers per sample a tensor has that a layer computes.
struct SleepOutput {
  std::int64_t width = 1;
  bool needs_gradient = true;
};

class SleepLayer final : public Layer {
 public:
  /// `made`: what the layer computes, the first of what it returns. After it come the inputs that `flow` passes on.
  SleepLayer(std::string name, const LayerCosts& costs, std::vector<SleepOutput> made, TensorFlow flow)
      : name_(std::move(name)),
        forward_(costs, &LayerCost::forward),
        backward_(costs, &LayerCost::backward),
        input_(costs, &LayerCost::backward_input),
        weight_gradient_(costs, &LayerCost::backward_weight),
        made_(std::move(made)),
        flow_(std::move(flow)),
        weight_(at::zeros({1}).requires_grad_()) {}

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    const std::int64_t samples = context.samples > 0 ? context.samples : inputs[0].size(0);
    const auto deadline = SteadyClock::now() + forward_.at(samples);
    Tensors outputs, trained;
    for (const SleepOutput& made : made_) {
      outputs.push_back(at::zeros({samples, made.width}));
      if (made.needs_gradient) trained.push_back(outputs.back());
    }
    if (at::GradMode::is_enabled() && !trained.empty()) {
      const std::shared_ptr<SleepNode> node(new SleepNode(read_of(inputs), weight_, backward_times(samples)), torch::autograd::deleteNode);
      for (at::Tensor& output : trained) torch::autograd::set_history(output, node);
    }
    for (std::size_t i = made_.size(); i < flow_.passes.size(); ++i) outputs.push_back(inputs.at(as_index(flow_.passes[i])));
    sleep_until(deadline);
    return outputs;
  }
  [[nodiscard]] std::optional<TensorFlow> flow() const override { return flow_; }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{name_ + ".weight", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override {
    auto copy = std::make_unique<SleepLayer>(*this);
    copy->weight_ = at::zeros({1}).requires_grad_();
    return copy;
  }
  [[nodiscard]] std::string kind() const override { return "Sleep"; }

 private:
  [[nodiscard]] Tensors read_of(const Tensors& inputs) const {
    Tensors read;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (flow_.reads.at(i)) read.push_back(inputs[i]);
    return read;
  }
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
  std::vector<SleepOutput> made_;
  TensorFlow flow_;
  at::Tensor weight_;
};

/// Returns the median time of a forward and a backward of one layer beyond its sleeps [s]. The processor sleeps before each, as a waiting
/// stage's does.
double measured_action_seconds() {
  constexpr double kSleep = 2e-3;
  LayerCosts costs;
  LayerCost cost;
  cost.samples = 1;
  cost.forward = cost.backward = exactly(kSleep);
  costs.by_samples.push_back(cost);
  SleepLayer layer("", costs, {{}}, {{true}, {-1}});
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

/// The layers' tensors on their way, cut by cut.
class SleepFlow {
 public:
  explicit SleepFlow(const Profile& profile) : tensors_(profile_tensors(profile)), reads_inputs_(profile.layers.size(), true) {
    for (const ProfileTensor& tensor : tensors_)
      for (const int reader : tensor.readers) reads_inputs_[as_index(reader)] = false;
    const auto last = std::find(reads_inputs_.rbegin(), reads_inputs_.rend(), true);
    last_reading_inputs_ = static_cast<int>(reads_inputs_.rend() - last) - 1;
  }

  struct Step {
    std::vector<SleepOutput> made;
    TensorFlow flow;
  };
  /// Returns the step of the next layer.
  Step next() {
    Step step;
    for (const int tensor : taken_) step.flow.reads.push_back(readers(tensor));
    std::vector<int> returned;
    for (int t = 0; t < static_cast<int>(tensors_.size()); ++t)
      if (tensors_[as_index(t)].maker == layer_) returned.push_back(t);
    // Tensors with gradient come first: the timing of a layer's backward looks at the first one.
    std::ranges::stable_partition(returned, [&](int t) { return !tensors_[as_index(t)].gradient_readers.empty(); });
    for (const int t : returned) step.made.push_back(output(tensors_[as_index(t)]));
    if (step.made.empty()) {
      step.made.emplace_back();  // for the loss, or for nobody
      returned.push_back(kUnread);
    }
    step.flow.passes.assign(step.made.size(), -1);
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      if (last_reader(taken_[i]) <= layer_) continue;
      step.flow.passes.push_back(static_cast<int>(i));
      returned.push_back(taken_[i]);
    }
    taken_ = std::move(returned);
    ++layer_;
    return step;
  }

 private:
  static constexpr int kInput = -1, kUnread = -2;

  static SleepOutput output(const ProfileTensor& tensor) {
    return {std::max<std::int64_t>(1, tensor.bytes_per_sample / 4), !tensor.gradient_readers.empty()};
  }
  // Returns the number of the layer's operators that read the tensor.
  [[nodiscard]] int readers(int tensor) const {
    if (tensor == kInput) return reads_inputs_[as_index(layer_)] ? 1 : 0;
    if (tensor == kUnread) return 0;
    const ProfileTensor& about = tensors_[as_index(tensor)];
    return static_cast<int>(std::ranges::count(about.readers, layer_) + std::ranges::count(about.several, layer_));
  }
  [[nodiscard]] int last_reader(int tensor) const {
    if (tensor == kInput) return last_reading_inputs_;
    return tensor == kUnread ? -1 : tensors_[as_index(tensor)].readers.back();
  }

  std::vector<ProfileTensor> tensors_;
  std::vector<bool> reads_inputs_;
  int last_reading_inputs_ = 0;
  std::vector<int> taken_{kInput};
  int layer_ = 0;
};

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
  SleepFlow flow(profile);
  const auto& costs = profile.classes.at(0).layers;
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    SleepFlow::Step step = flow.next();
    layers.push_back({profile.layers[i].name, profile.layers[i].modules,
                      std::make_unique<SleepLayer>(profile.layers[i].name, costs[i], std::move(step.made), std::move(step.flow))});
  }
  const SampleDescription sample{.inputs = {{.shape = {1}}}, .target = {.shape = {1}}};
  // The last layer's cost includes the loss, so the loss itself takes no time.
  Loss loss = Loss::custom("none", [](const Tensors& outputs, const at::Tensor&) { return outputs[0].narrow(1, 0, 1).sum().mul(0); });
  return {profile.model, std::move(layers), std::move(loss), sample, profile.batch};
}

}  // namespace mptune::profiler
