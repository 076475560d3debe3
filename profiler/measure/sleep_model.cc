#include "mptune/profiler/measure/sleep_model.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "mptune/profiler/device/precise_sleep.h"
#include "mptune/profiler/statistics/samples.h"

namespace mptune {

namespace {

/// Seconds by micro-batch size, between the sizes of the profile interpolated linearly and beyond them proportionally.
class Curve {
 public:
  Curve(const LayerCosts& costs, Samples LayerCost::*what) {
    for (const LayerCost& cost : costs.by_samples) points_.emplace_back(cost.samples, median(cost.*what));
  }
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
    return std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  std::vector<std::pair<double, double>> points_;
};

struct SleepFunction : torch::autograd::Function<SleepFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor& /*weight*/,
                            std::int64_t width, std::int64_t forward_ns, std::int64_t backward_ns) {
    const auto start = SteadyClock::now();
    context->saved_data["backward_ns"] = backward_ns;
    context->saved_data["input_width"] = input.size(1);
    context->saved_data["float_input"] = input.is_floating_point();
    at::Tensor output = at::zeros({input.size(0), width});
    sleep_until(start + std::chrono::nanoseconds(forward_ns));
    return output;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context, const torch::autograd::tensor_list& gradients) {
    const auto start = SteadyClock::now();
    at::Tensor input;
    if (context->saved_data["float_input"].toBool() && context->needs_input_grad(0))
      input = at::empty({gradients[0].size(0), context->saved_data["input_width"].toInt()});
    sleep_until(start + std::chrono::nanoseconds(context->saved_data["backward_ns"].toInt()));
    return {input, at::zeros({1}), {}, {}, {}};
  }
};

/// What a sleeping layer takes beside its sleep on a processor that has just woken up: autograd, allocation, cold caches.
struct Overheads {
  SteadyClock::duration forward{};   ///< per layer
  SteadyClock::duration backward{};  ///< per layer
  SteadyClock::duration action{};    ///< per forward or backward of a stage, however many layers it has
};

class SleepLayer final : public Layer {
 public:
  SleepLayer(std::string name, const LayerCosts& costs, std::int64_t width, const Overheads& overheads)
      : name_(std::move(name)),
        forward_(costs, &LayerCost::forward),
        backward_(costs, &LayerCost::backward),
        width_(width),
        overheads_(overheads),
        weight_(at::zeros({1}).requires_grad_()) {}

  Tensors forward(const Tensors& inputs, const RunContext&) override {
    const std::int64_t samples = inputs[0].size(0);
    if (!at::GradMode::is_enabled()) {
      const auto start = SteadyClock::now();
      at::Tensor output = at::zeros({samples, width_});
      sleep_until(start + forward_.at(samples) - overheads_.forward);
      return {output};
    }
    return {SleepFunction::apply(inputs[0], weight_, width_, std::chrono::nanoseconds(forward_.at(samples) - overheads_.forward).count(),
                                 std::chrono::nanoseconds(backward_.at(samples) - overheads_.backward).count())};
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
  std::string name_;
  Curve forward_;
  Curve backward_;
  std::int64_t width_;
  Overheads overheads_;
  at::Tensor weight_;
};

struct ChainOverhead {
  double forward_s = 0;
  double backward_s = 0;
};

/// Median of what `length` layers take beyond their sleeps.
ChainOverhead chain_overhead(int length) {
  constexpr double kSleep = 2e-3;
  LayerCosts costs;
  LayerCost cost;
  cost.samples = 1;
  cost.forward = cost.backward = exactly(kSleep);
  costs.by_samples.push_back(cost);
  std::vector<SleepLayer> layers(static_cast<std::size_t>(length), SleepLayer("", costs, 1, {}));
  std::vector<double> forward, backward;
  for (int repeat = 0; repeat < 15; ++repeat) {
    Tensors values{at::zeros({1, 1}).requires_grad_()};
    const auto start = SteadyClock::now();
    for (SleepLayer& layer : layers) values = layer.forward(values, {});
    const auto middle = SteadyClock::now();
    torch::autograd::Engine::get_default_engine().execute({torch::autograd::impl::gradient_edge(values[0])}, {at::ones_like(values[0])},
                                                          false, false, true);
    const auto end = SteadyClock::now();
    forward.push_back(std::chrono::duration<double>(middle - start).count() - length * kSleep);
    backward.push_back(std::chrono::duration<double>(end - middle).count() - length * kSleep);
  }
  return {median(std::move(forward)), median(std::move(backward))};
}

/// Chains of one and of three layers tell what each layer adds from what every action pays. Measured once per process.
const Overheads& calibration() {
  static const Overheads overheads = [] {
    make_timers_exact();
    const ChainOverhead one = chain_overhead(1), three = chain_overhead(3);
    const double forward = std::max(0.0, (three.forward_s - one.forward_s) / 2),
                 backward = std::max(0.0, (three.backward_s - one.backward_s) / 2);
    const double action = std::max(0.0, (one.forward_s - forward + one.backward_s - backward) / 2);
    const auto duration = [](double seconds) {
      return std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds));
    };
    return Overheads{duration(forward), duration(backward), duration(action)};
  }();
  return overheads;
}

}  // namespace

double sleep_action_seconds() {
  return std::chrono::duration<double>(calibration().action).count();
}

Model make_sleep_model(const Profile& profile) {
  std::vector<ModelLayer> layers;
  const auto& costs = profile.classes.at(0).layers;
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    std::int64_t bytes = 4;
    for (const LayerEdge& edge : profile.edges)
      if (edge.from == static_cast<int>(i)) bytes = std::max<std::int64_t>(4, edge.bytes_per_sample);
    layers.push_back({profile.layers[i].name, profile.layers[i].modules,
                      std::make_unique<SleepLayer>(profile.layers[i].name, costs[i], bytes / 4, calibration())});
  }
  SampleDescription sample;
  sample.input_shape = {1};
  sample.target_shape = {1};
  sample.target_type = at::kFloat;
  // The loss belongs to the last layer's cost and takes no time of its own.
  Loss loss = Loss::custom("none", [](const Tensors& outputs, const at::Tensor&) { return outputs[0].narrow(1, 0, 1).sum().mul(0); });
  return {profile.model, std::move(layers), std::move(loss), sample, profile.batch};
}

}  // namespace mptune
