#include "small_models.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <utility>

#include "profiler/model/loading/load_model.h"
#include "profiler/model/nn/nn.h"
#include "tests/support/files.h"
#include "tests/support/script_modules.h"
#include "tuner/check/step_record.h"

namespace mptune::testing {
namespace {

namespace nn = torch::nn;

at::Tensor some_numbers(at::IntArrayRef sizes) {
  return (at::arange(c10::multiply_integers(sizes), at::kFloat) * 0.37F).sin().view(sizes) * 0.4F;
}

// ---- layers of a formula ----

struct Weight {
  std::string name;
  at::Tensor tensor;
  std::function<at::Tensor(const at::Tensor&)> hook = {};
};
Weight trained(const std::string& name, at::IntArrayRef sizes) {
  return {name, some_numbers(sizes).requires_grad_()};
}
Weight frozen(const std::string& name, at::IntArrayRef sizes) {
  return {name, some_numbers(sizes)};
}
Weight hooked(const std::string& name, at::IntArrayRef sizes) {
  return {name, some_numbers(sizes).requires_grad_(), [](const at::Tensor& gradient) { return gradient * 2; }};
}

class FormulaLayer final : public Layer {
 public:
  using Formula = std::function<at::Tensor(const at::Tensor& x, const Tensors& weights)>;

  FormulaLayer(std::vector<Weight> weights, Formula formula, bool shared)
      : weights_(std::move(weights)), formula_(std::move(formula)), shared_(shared) {
    for (Weight& weight : weights_)
      if (weight.hook) weight.tensor.register_hook(weight.hook);
  }
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    Tensors weights;
    for (const Weight& weight : weights_) weights.push_back(weight.tensor);
    return {formula_(inputs.at(0), weights)};
  }
  std::vector<NamedTensor> parameters() const override { return listed(true); }
  std::vector<NamedTensor> buffers() const override { return listed(false); }
  bool shares_by_name() const override { return shared_; }
  void share(const std::string& name, const at::Tensor& tensor) override {
    for (Weight& weight : weights_)
      if (weight.name == name) weight.tensor = tensor;
  }
  std::unique_ptr<Layer> clone() const override {
    std::vector<Weight> copies = weights_;
    for (Weight& weight : copies) weight.tensor = weight.tensor.detach().clone().set_requires_grad(weight.tensor.requires_grad());
    return std::make_unique<FormulaLayer>(std::move(copies), formula_, shared_);
  }
  std::string kind() const override { return "Formula"; }

 private:
  [[nodiscard]] std::vector<NamedTensor> listed(bool trained) const {
    std::vector<NamedTensor> found;
    for (const Weight& weight : weights_)
      if (weight.tensor.requires_grad() == trained) found.push_back({weight.name, weight.tensor});
    return found;
  }

  std::vector<Weight> weights_;
  Formula formula_;
  bool shared_;
};

/// Names of weights are unique in the chain.
struct Chain {
  explicit Chain(SampleTensor input) : sample{.inputs = {std::move(input)}} {}

  Chain& then(std::vector<Weight> weights, FormulaLayer::Formula formula, bool shared = false) {
    const std::string name = "part" + std::to_string(layers.size());
    layers.push_back({name, {}, std::make_unique<FormulaLayer>(std::move(weights), std::move(formula), shared)});
    return *this;
  }
  Chain& tanh() {
    return then({}, [](const at::Tensor& x, const Tensors&) { return x.tanh(); });
  }
  /// On the last dimension.
  Chain& linear(const std::string& name, std::int64_t in, std::int64_t out) {
    return then({trained(name + ".weight", {out, in}), trained(name + ".bias", {out})},
                [](const at::Tensor& x, const Tensors& w) { return at::linear(x, w[0], w[1]); });
  }
  Model model() { return {"chain", std::move(layers), Loss::mean_square(), sample, 10}; }

  SampleDescription sample;
  std::vector<ModelLayer> layers;
};

at::Tensor convolve(const at::Tensor& x, const Tensors& w) {
  return at::conv2d(x, w[0], w[1], 1, 1);
}

/// The factor on either side, in batches, scaled; factors that are not contiguous.
Model matrices() {
  return Chain({.shape = {3, 4}})
      .then({trained("bmm", {3, 4, 5})}, [](const at::Tensor& x, const Tensors& w) { return x.transpose(0, 1).bmm(w[0]).transpose(0, 1); })
      .linear("3d", 5, 6)
      .then({trained("first", {4, 18})},
            [](const at::Tensor& x, const Tensors& w) {
              return w[0].mm(x.reshape({-1, 18}).t()).t();
            })
      .linear("transposed", 4, 4)
      .then({trained("scaled", {4, 3})}, [](const at::Tensor& x, const Tensors& w) { return at::addmm(x.sum(1, true), x, w[0], 2, 3); })
      .then({trained("turned", {5, 3})}, [](const at::Tensor& x, const Tensors& w) { return x.mm(w[0].t()); })
      .model();
}

Chain words() {
  return Chain({.shape = {5}, .type = at::kLong, .classes = 7});
}

Model embedding() {
  return words()
      .then({trained("table", {7, 6})}, [](const at::Tensor& x, const Tensors& w) { return at::embedding(w[0], x, 2); })
      .linear("mixed", 6, 4)
      .tanh()
      .linear("head", 4, 3)
      .model();
}

Model embedding_by_frequency() {
  return words()
      .then({trained("table", {7, 6})}, [](const at::Tensor& x, const Tensors& w) { return at::embedding(w[0], x, -1, true); })
      .linear("mixed", 6, 4)
      .tanh()
      .linear("head", 4, 3)
      .model();
}

Model tied_embedding() {
  return words()
      .then(
          {trained("table", {7, 6})}, [](const at::Tensor& x, const Tensors& w) { return at::embedding(w[0], x); }, true)
      .linear("mixed", 6, 6)
      .then(
          {trained("table", {7, 6})}, [](const at::Tensor& x, const Tensors& w) { return x.matmul(w[0].t()); }, true)
      .then({trained("scale", {7})}, [](const at::Tensor& x, const Tensors& w) { return x * w[0]; })
      .model();
}

Model weights_used_twice() {
  return Chain({.shape = {4}})
      .then({trained("twice", {4, 4})}, [](const at::Tensor& x, const Tensors& w) { return x.mm(w[0]).relu().mm(w[0]); })
      .linear("between", 4, 4)
      .then({trained("summed", {4, 4})}, [](const at::Tensor& x, const Tensors& w) { return x.mm(w[0]) + w[0].sum(); })
      .linear("head", 4, 3)
      .model();
}

Model frozen_weights() {
  return Chain({.shape = {6}})
      .then({frozen("frozen", {6, 5})}, [](const at::Tensor& x, const Tensors& w) { return x.mm(w[0]); })
      .tanh()
      .then({trained("weight", {4, 5}), frozen("bias", {4})},
            [](const at::Tensor& x, const Tensors& w) { return at::linear(x, w[0], w[1]); })
      .then({frozen("frozen again", {4, 4}), trained("trained bias", {4})},
            [](const at::Tensor& x, const Tensors& w) { return at::linear(x, w[0], w[1]); })
      .linear("head", 4, 3)
      .then({frozen("last", {3, 3})}, [](const at::Tensor& x, const Tensors& w) { return x.mm(w[0]); })
      .model();
}

Model frozen_convolutions() {
  return Chain({.shape = {3, 5, 5}})
      .then({frozen("weight 0", {4, 3, 3, 3}), trained("bias 0", {4})}, convolve)
      .then({trained("weight 1", {4, 4, 3, 3}), frozen("bias 1", {4})}, convolve)
      .then({frozen("weight 2", {4, 4, 3, 3}), frozen("bias 2", {4})}, convolve)
      .then({frozen("weight 3", {4, 4, 3, 3}), trained("bias 3", {4})}, convolve)
      .then({trained("weight 4", {4, 4, 3, 3}), trained("bias 4", {4})}, convolve)
      .model();
}

Model hooked_weights() {
  return Chain({.shape = {3, 5, 5}})
      .then({trained("weight 0", {4, 3, 3, 3}), hooked("bias 0", {4})}, convolve)
      .then({hooked("weight 1", {4, 4, 3, 3}), trained("bias 1", {4})}, convolve)
      .then({hooked("weight 2", {3, 100})}, [](const at::Tensor& x, const Tensors& w) { return at::linear(x.flatten(1), w[0]); })
      .linear("head", 3, 3)
      .model();
}

struct ProductOfOnesOwn : torch::autograd::Function<ProductOfOnesOwn> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    context->save_for_backward({x, weight});
    return x.mm(weight);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {context->needs_input_grad(0) ? gradients[0].mm(saved[1].t()) : at::Tensor(),
            context->needs_input_grad(1) ? saved[0].t().mm(gradients[0]) : at::Tensor()};
  }
};

Model functions_of_ones_own() {
  const auto apply = [](const at::Tensor& x, const Tensors& w) { return ProductOfOnesOwn::apply(x, w[0]); };
  return Chain({.shape = {4}})
      .then({trained("first", {4, 5})}, apply)
      .linear("between", 5, 4)
      .tanh()
      .then({trained("last", {4, 3})}, apply)
      .model();
}

Model attention() {
  const auto attend = [](const at::Tensor& x, const Tensors& w) {
    const auto heads = [&](const at::Tensor& weight) { return at::linear(x, weight).view({-1, 4, 2, 4}).transpose(1, 2); };
    return at::scaled_dot_product_attention(heads(w[0]), heads(w[1]), heads(w[2])).transpose(1, 2).reshape({-1, 4, 8});
  };
  const auto weights = [](const std::string& name) {
    return std::vector<Weight>{trained(name + ".q", {8, 8}), trained(name + ".k", {8, 8}), trained(name + ".v", {8, 8})};
  };
  return Chain({.shape = {4, 8}})
      .then(weights("first"), attend)
      .linear("between", 8, 8)
      .then(weights("second"), attend)
      .linear("head", 8, 3)
      .model();
}

Model autocast() {
  const auto in_bfloat16 = [](const at::Tensor& x, const Tensors& w) {
    at::autocast::set_autocast_cache_enabled(false);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::Tensor y = at::linear(x, w[0], w[1]);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    return y.to(at::kFloat);
  };
  const auto weights = [](const std::string& name) {
    return std::vector<Weight>{trained(name + ".weight", {16, 16}), trained(name + ".bias", {16})};
  };
  return Chain({.shape = {16}})
      .then(weights("first"), in_bfloat16)
      .tanh()
      .then(weights("second"), in_bfloat16)
      .linear("head", 16, 4)
      .model();
}

// ---- torch::nn ----

Model of_modules(const nn::Sequential& net, std::vector<std::int64_t> shape) {
  return from_sequential(net, Loss::mean_square(), {.inputs = {{.shape = std::move(shape)}}});
}

Model transposed_convolutions() {
  at::manual_seed(1);
  return of_modules(nn::Sequential(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(3, 4, 3).stride(2)), nn::ReLU(nn::ReLUOptions(true)),
                                   nn::Conv2d(4, 4, 3), nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 3, 2).bias(false))),
                    {3, 4, 4});
}

Model one_dimension() {
  at::manual_seed(1);
  return of_modules(nn::Sequential(nn::Conv1d(4, 6, 3), nn::LayerNorm(nn::LayerNormOptions({6})), nn::Conv1d(6, 6, 1), nn::Linear(6, 5)),
                    {4, 8});
}

Model linear_layers() {
  at::manual_seed(1);
  return of_modules(nn::Sequential(nn::Linear(nn::LinearOptions(6, 8).bias(false)), nn::Tanh(), nn::Linear(8, 8),
                                   nn::LayerNorm(nn::LayerNormOptions({8})), nn::ReLU(nn::ReLUOptions(true)), nn::Linear(8, 4)),
                    {6});
}

Model recurrent() {
  at::manual_seed(1);
  std::vector<ModelLayer> layers;
  for (const char* name : {"first", "second", "third", "fourth"}) {
    const auto module = std::make_shared<nn::LSTMImpl>(nn::LSTMOptions(4, 4).batch_first(true));
    layers.push_back({name, {name}, layer("LSTM", module, name, [](nn::Module& called, const Tensors& inputs) {
                        return Tensors{std::get<0>(dynamic_cast<nn::LSTMImpl&>(called).forward(inputs.at(0)))};
                      })});
  }
  return {"recurrent", std::move(layers), Loss::mean_square(), {.inputs = {{.shape = {5, 4}}}}, 10};
}

// ---- TorchScript ----

Model saved_and_loaded(const torch::jit::Module& module, const std::string& input) {
  const TestFolder folder("small-models");
  module.save(folder.path("net.pt"));
  return copy_of(load_model(folder.path("net.pt"), input, 0).model, Loss::mean_square());
}

/// What torch.jit.trace makes of `forward`.
torch::jit::Module traced(const NamedTensors& parameters, const at::Tensor& example,
                          const std::function<at::Tensor(const torch::jit::Module&, const at::Tensor&)>& forward) {
  static int count = 0;
  torch::jit::Module module = script_module("traced.Part" + std::to_string(count++), parameters, {}, {}, "");
  const auto call = [&](torch::jit::Stack inputs) { return torch::jit::Stack{forward(module, inputs.at(0).toTensor())}; };
  const auto nameless = [](const at::Tensor&) { return std::string(); };
  const auto state = torch::jit::tracer::trace({example}, call, nameless, /*strict=*/true, /*force_outplace=*/false, &module).first;
  const c10::QualifiedName name(*module.type()->name(), "forward");
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(name, state->graph));
  return module;
}

Model traced_model() {
  const auto convolution = [](const torch::jit::Module& module, const at::Tensor& x) {
    return at::conv2d(x, module.attr("weight").toTensor(), module.attr("bias").toTensor(), 1, 1).relu();
  };
  const auto linear = [](const torch::jit::Module& module, const at::Tensor& x) {
    return at::linear(x.flatten(1), module.attr("weight").toTensor(), module.attr("bias").toTensor()).tanh();
  };
  const auto part = [](const std::vector<std::int64_t>& sizes) {
    return NamedTensors{{"weight", some_numbers(sizes)}, {"bias", some_numbers({sizes[0]})}};
  };
  return saved_and_loaded(script_sequential({{"0", traced(part({4, 3, 3, 3}), some_numbers({2, 3, 5, 5}), convolution)},
                                             {"1", traced(part({4, 4, 3, 3}), some_numbers({2, 4, 5, 5}), convolution)},
                                             {"2", traced(part({6, 100}), some_numbers({2, 4, 5, 5}), linear)},
                                             {"3", traced(part({3, 6}), some_numbers({2, 6}), linear)}}),
                          "3x5x5");
}

}  // namespace

Model convolutions() {
  using nn::Conv2d;
  using nn::Conv2dOptions;
  at::manual_seed(1);
  return of_modules(nn::Sequential(Conv2d(Conv2dOptions(3, 4, 3).padding(1)), nn::ReLU(nn::ReLUOptions(true)),
                                   Conv2d(Conv2dOptions(4, 6, 3).groups(2).stride(2).padding(1).bias(false)), nn::BatchNorm2d(6),
                                   Conv2d(Conv2dOptions(6, 6, 3).groups(6).padding(1)), nn::GroupNorm(nn::GroupNormOptions(2, 6)),
                                   Conv2d(Conv2dOptions(6, 4, 3).dilation(2).padding(2)), nn::Flatten(), nn::Linear(36, 5)),
                    {3, 6, 6});
}

Model scripted_model() {
  at::manual_seed(1);
  const auto head = script_module("Head", {}, {}, {{"fc", script_linear(6, 5)}},
                                  "def forward(self, input):\n  return self.fc.forward(input.mean([2, 3]))\n");
  return saved_and_loaded(script_sequential({{"0", script_convolution(3, 4, 3, 1)},
                                             {"1", script_batch_norm(4)},
                                             {"2", script_relu(true)},
                                             {"3", script_basic_block(4, 6, 2)},
                                             {"4", head}}),
                          "3x6x6");
}

Model copy_of(const Model& model, const Loss& loss) {
  return {model.name(), tuner::cloned_layers(model), loss, model.sample(), model.default_batch()};
}

Model copy_of(const Model& model) {
  return copy_of(model, model.loss());
}

const std::vector<SmallModel>& small_models() {
  static const std::vector<SmallModel> models{{"convolutions", convolutions},     {"transposed convolutions", transposed_convolutions},
                                              {"one dimension", one_dimension},   {"linear layers", linear_layers},
                                              {"recurrent layers", recurrent},    {"matrices", matrices},
                                              {"embedding", embedding},           {"embedding by frequency", embedding_by_frequency},
                                              {"tied embedding", tied_embedding}, {"weights used twice", weights_used_twice},
                                              {"frozen weights", frozen_weights}, {"frozen convolutions", frozen_convolutions},
                                              {"hooked weights", hooked_weights}, {"functions of one's own", functions_of_ones_own},
                                              {"attention", attention},           {"autocast", autocast},
                                              {"scripted", scripted_model},       {"traced", traced_model}};
  return models;
}

}  // namespace mptune::testing
