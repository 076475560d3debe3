#include "profiler/model/kernels/replace_slow_kernels.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "profiler/model/builtin/builtin_models.h"
#include "profiler/model/kernels/operator_times.h"
#include "profiler/model/layers/graph_piece.h"
#include "profiler/model/layers/model.h"
#include "tests/support/script_modules.h"

namespace mptune::profiler {
namespace {

using Forward = std::function<at::Tensor(const at::Tensor&)>;

/// Sets the intra-op threads of this thread; kernels depend on them.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_;
};

/// Outputs and gradients of one forward and backward, and the operators that ran.
struct Result {
  Tensors tensors;
  std::string node;
  std::set<std::string> operators;

  [[nodiscard]] bool slow() const {
    return std::any_of(operators.begin(), operators.end(), [](const std::string& name) { return name.find("slow_conv") != name.npos; });
  }
};

Result run(const Forward& forward, at::Tensor input, const Tensors& parameters) {
  input = input.detach().requires_grad_();
  for (at::Tensor parameter : parameters) parameter.mutable_grad().reset();
  const OperatorTimes times;
  const at::Tensor output = forward(input);
  const at::Tensor weights = at::linspace(0.5, 1.5, output.numel()).view_as(output);
  output.backward(weights);
  Result result{{output.detach(), input.grad()}, output.grad_fn()->name(), {}};
  for (const at::Tensor& parameter : parameters) result.tensors.push_back(parameter.grad());
  for (const auto& [name, seconds] : times.seconds()) result.operators.insert(name);
  return result;
}

Result run_replaced(const Forward& forward, const at::Tensor& input, const Tensors& parameters) {
  const ReplaceSlowKernels scope(true);
  return run(forward, input, parameters);
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-20)).item<double>();
}

/// Strides; those of dimensions of one element do not matter.
std::vector<std::int64_t> order_of(const at::Tensor& tensor) {
  std::vector<std::int64_t> strides = tensor.strides().vec();
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (tensor.sizes()[i] == 1) strides[i] = 0;
  return strides;
}

void expect_close(const Result& a, const Result& b, double limit) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    ASSERT_EQ(a.tensors[i].sizes(), b.tensors[i].sizes());
    EXPECT_EQ(order_of(a.tensors[i]), order_of(b.tensors[i]));
    EXPECT_LE(difference(a.tensors[i], b.tensors[i]), limit) << "tensor " << i;
  }
}

struct Shape {
  std::vector<std::int64_t> image, kernel;
  std::int64_t batch, in, out, groups, stride, padding;
  bool bias, channels_last, transposed;
};

/// The rule of LibTorch 2.11, on one thread.
bool slow_by_rule(const Shape& shape) {
  const bool one = shape.kernel.back() == 1 && (shape.kernel.size() == 1 || shape.kernel[shape.kernel.size() - 2] == 1);
  std::int64_t numbers = shape.batch * shape.in;
  for (std::size_t i = 0; i < 2 && i < shape.image.size(); ++i) numbers *= shape.image[i];
  const bool taken_dilated = shape.groups > 1 || shape.batch > 1 || numbers > 20480;
  return one && shape.stride == 1 && shape.batch < 16 && taken_dilated;
}

void check(const Shape& shape) {
  const auto dimensions = shape.image.size();
  std::vector<std::int64_t> sizes{shape.batch, shape.in}, kernel{shape.out, shape.in / shape.groups};
  if (shape.transposed) kernel = {shape.in, shape.out / shape.groups};
  sizes.insert(sizes.end(), shape.image.begin(), shape.image.end());
  kernel.insert(kernel.end(), shape.kernel.begin(), shape.kernel.end());
  at::Tensor input = at::randn(sizes);
  if (shape.channels_last) input = input.contiguous(at::MemoryFormat::ChannelsLast);
  const Tensors parameters = shape.bias ? Tensors{at::randn(kernel).requires_grad_(), at::randn({shape.out}).requires_grad_()}
                                        : Tensors{at::randn(kernel).requires_grad_()};
  const std::vector<std::int64_t> none(dimensions, 0), ones(dimensions, 1), stride(dimensions, shape.stride),
      padding(dimensions, shape.padding);
  const Forward forward = [&](const at::Tensor& x) {
    return at::convolution(x, parameters[0], shape.bias ? std::optional(parameters[1]) : std::nullopt, stride, padding, ones,
                           shape.transposed, none, shape.groups);
  };
  const Result plain = run(forward, input, parameters), replaced = run_replaced(forward, input, parameters);
  SCOPED_TRACE(::testing::Message() << "input " << input.sizes() << " weight " << parameters[0].sizes() << " groups " << shape.groups
                                    << " stride " << shape.stride << " padding " << shape.padding << " bias " << shape.bias
                                    << " channels last " << shape.channels_last << " transposed " << shape.transposed);
  const bool was_slow = slow_by_rule(shape);
  EXPECT_TRUE(plain.slow() || !was_slow);
  EXPECT_EQ(replaced.operators == plain.operators, !was_slow);
  EXPECT_FALSE(replaced.slow() && was_slow);
  EXPECT_EQ(replaced.node, "ConvolutionBackward0");
  expect_close(replaced, plain, was_slow ? 1e-5 : 0);
}

TEST(ReplaceSlowKernels, TakesOneDnnWhereLibTorchWouldNotAndLeavesTheRestAlone) {
  const Threads one(1);
  at::manual_seed(1);
  for (const std::int64_t batch : {1, 2, 15, 16})
    for (const std::int64_t kernel : {1, 3})
      for (const std::int64_t groups : {1, 2})
        for (const std::int64_t stride : {1, 2})
          for (const bool bias : {false, true})
            for (const bool channels_last : {false, true})
              check({{6, 5}, {kernel, kernel}, batch, 8, 12, groups, stride, bias ? 1 : 0, bias, channels_last, false});
}

TEST(ReplaceSlowKernels, CoversOtherDimensionsAndTransposedConvolutions) {
  const Threads one(1);
  for (const std::int64_t batch : {1, 4, 16})
    for (const bool transposed : {false, true}) {
      check({{7}, {1}, batch, 4, 6, 1, 1, 0, true, false, transposed});
      check({{7}, {3}, batch, 4, 6, 1, 1, 1, true, false, transposed});
      check({{6, 5}, {1, 1}, batch, 8, 12, 2, 1, 0, true, false, transposed});
      check({{6, 5}, {3, 1}, batch, 8, 12, 1, 1, 0, false, false, transposed});
      check({{4, 5, 6}, {1, 1, 1}, batch, 4, 6, 1, 1, 0, true, false, transposed});
      check({{4, 5, 6}, {3, 1, 1}, batch, 4, 6, 1, 1, 0, false, false, transposed});
    }
  check({{40, 80}, {1, 1}, 1, 8, 4, 1, 1, 0, false, false, false});  // one sample, but more than 20480 elements
}

TEST(ReplaceSlowKernels, LeavesSeveralThreadsAndOtherTypesAlone) {
  const at::Tensor weight = at::randn({6, 4, 1, 1}).requires_grad_(), input = at::randn({4, 4, 5, 5});
  const at::Tensor wide = weight.detach().to(at::kDouble).requires_grad_();
  {
    const Threads two(2);
    const Forward forward = [&](const at::Tensor& x) { return at::conv2d(x, weight); };
    expect_close(run_replaced(forward, input, {weight}), run(forward, input, {weight}), 0);
    EXPECT_FALSE(run(forward, input, {weight}).slow());
  }
  const Threads one(1);
  const Forward forward = [&](const at::Tensor& x) { return at::conv2d(x, wide); };
  const Result replaced = run_replaced(forward, input.to(at::kDouble), {wide});
  EXPECT_TRUE(replaced.slow()) << "oneDNN has no float64";
  expect_close(replaced, run(forward, input.to(at::kDouble), {wide}), 0);
}

bool replaces_here() {
  const at::Tensor weight = at::randn({6, 4, 1, 1}).requires_grad_();
  return !run([&](const at::Tensor& x) { return at::conv2d(x, weight); }, at::randn({4, 4, 5, 5}), {weight}).slow();
}

TEST(ReplaceSlowKernels, IsOffByDefaultNestsAndBelongsToItsThread) {
  const Threads one(1);
  EXPECT_FALSE(replaces_here());
  {
    const ReplaceSlowKernels on(true);
    EXPECT_TRUE(replaces_here());
    {
      const ReplaceSlowKernels off(false);
      EXPECT_FALSE(replaces_here());
      const ReplaceSlowKernels again(true);
      EXPECT_TRUE(replaces_here());
    }
    EXPECT_TRUE(replaces_here());
    bool other = true;
    std::thread([&] {
      (void)at::get_num_threads();
      at::set_num_threads(1);
      other = replaces_here();
    }).join();
    EXPECT_FALSE(other);
  }
  EXPECT_FALSE(replaces_here());
}

TEST(ReplaceSlowKernels, CountsWhatItReplaces) {
  const Threads one(1);
  const at::Tensor small = at::randn({6, 4, 1, 1}), large = at::randn({6, 4, 3, 3}), input = at::randn({4, 4, 5, 5});
  const ReplaceSlowKernels outer(true);
  (void)at::conv2d(input, small);
  const ReplaceSlowKernels inner(true);
  EXPECT_EQ(inner.replaced(), 0);
  (void)at::conv2d(input, large);
  EXPECT_EQ(inner.replaced(), 0);
  (void)at::conv2d(input, small);
  EXPECT_EQ(inner.replaced(), 1);
  EXPECT_EQ(outer.replaced(), 2);
}

TEST(ReplaceSlowKernels, NeedsNoScopeForTheBackward) {
  const Threads one(1);
  const at::Tensor weight = at::randn({6, 4, 1, 1}).requires_grad_();
  at::Tensor output;
  {
    const ReplaceSlowKernels on(true);
    output = at::conv2d(at::randn({4, 4, 5, 5}), weight);
  }
  const OperatorTimes times;
  output.sum().backward();
  EXPECT_EQ(times.seconds().count("aten::convolution_backward"), 1u);
  EXPECT_EQ(times.seconds().count("aten::_slow_conv2d_backward"), 0u);
}

TEST(ReplaceSlowKernels, WorksWithGradientsOff) {
  const Threads one(1);
  const at::Tensor weight = at::randn({6, 4, 1, 1}), input = at::randn({4, 4, 5, 5});
  const at::NoGradGuard no_gradients;
  const ReplaceSlowKernels on(true);
  const OperatorTimes times;
  (void)at::conv2d(input, weight);
  EXPECT_EQ(times.seconds().count("aten::mkldnn_convolution"), 1u);
}

void expect_replaced(const Forward& forward, const at::Tensor& input, const Tensors& parameters) {
  const Result plain = run(forward, input, parameters), replaced = run_replaced(forward, input, parameters);
  EXPECT_TRUE(plain.slow());
  EXPECT_FALSE(replaced.slow());
  EXPECT_EQ(replaced.node, plain.node);
  expect_close(replaced, plain, 1e-5);
}

TEST(ReplaceSlowKernels, WorksForModulesOfTorchNn) {
  const Threads one(1);
  torch::nn::Conv2d module(torch::nn::Conv2dOptions(8, 4, 1));
  expect_replaced([&](const at::Tensor& x) { return module->forward(x); }, at::randn({4, 8, 6, 6}), {module->weight, module->bias});
}

TEST(ReplaceSlowKernels, WorksForTorchScript) {
  const Threads one(1);
  auto scripted = testing::script_convolution(8, 4, 1, 1);
  const auto traced = testing::script_module(
      "Traced", {{"weight", at::randn({4, 8, 1, 1})}}, {}, {},
      "def forward(self, x):\n"
      "  return torch._convolution(x, self.weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True, True)\n");
  for (torch::jit::Module module : {scripted, traced}) {
    const Forward forward = [&](const at::Tensor& x) { return module.forward({x}).toTensor(); };
    for (int call = 0; call < 3; ++call) expect_replaced(forward, at::randn({4, 8, 6, 6}), {module.attr("weight").toTensor()});
  }
  torch::jit::Module module = traced;
  EXPECT_EQ(run_replaced([&](const at::Tensor& x) { return module.forward({x}).toTensor(); }, at::randn({4, 8, 6, 6}), {}).node,
            "ConvolutionBackward1");
}

// Exported programs call operators by name through the dispatcher.
TEST(ReplaceSlowKernels, WorksForOperatorsByName) {
  const Threads one(1);
  const at::Tensor weight = at::randn({4, 8, 1, 1}).requires_grad_();
  for (const char* name : {"aten::conv2d", "aten::convolution"}) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
    const std::vector<std::int64_t> ones{1, 1}, none{0, 0};
    const Forward forward = [&](const at::Tensor& x) {
      torch::jit::Stack stack{x, weight, c10::IValue(), ones, none, ones};
      if (op.schema().arguments().size() == 9)
        for (const c10::IValue& value : {c10::IValue(false), c10::IValue(none), c10::IValue(1)}) stack.push_back(value);
      else
        stack.emplace_back(1);
      op.callBoxed(stack);
      return stack.at(0).toTensor();
    };
    expect_replaced(forward, at::randn({4, 8, 6, 6}), {weight});
  }
}

TEST(ReplaceSlowKernels, WorksForABuiltInModel) {
  const Threads one(1);
  Model model = load_builtin("resnet50", "", "3x32x32", 0);
  const Batch batch = synthetic_batch(model.sample(), 2, 1);
  const ModelLayer& block = model.layers().at(1);
  const at::Tensor input = run_layer(model.layers().at(0), 0, batch.inputs, {}).at(0);
  Tensors parameters;
  for (const NamedTensor& parameter : block.layer->parameters()) parameters.push_back(parameter.tensor);
  const Forward forward = [&](const at::Tensor& x) { return run_layer(block, 1, {x}, {}).at(0); };
  const Result replaced = run_replaced(forward, input, parameters);
  EXPECT_FALSE(replaced.slow());
  EXPECT_EQ(replaced.operators.count("aten::mkldnn_convolution"), 1u);
  expect_close(replaced, run(forward, input, parameters), 1e-4);
}

TEST(OperatorTimes, CountsNestedOperatorsOnce) {
  const OperatorTimes times;
  (void)at::linear(at::ones({300, 300}), at::ones({300, 300}), at::ones({300}));
  EXPECT_GT(times.seconds().at("aten::addmm"), times.seconds().at("aten::linear"));
  EXPECT_EQ(times.seconds().count("aten::conv2d"), 0u);
}

}  // namespace
}  // namespace mptune::profiler
