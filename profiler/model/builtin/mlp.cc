#include <torch/nn.h>

#include "profiler/base/error.h"
#include "profiler/model/builtin/builtin.h"
#include "profiler/model/builtin/builtin_chain.h"
#include "profiler/model/builtin/primitives.h"

namespace mptune::profiler {
namespace {

constexpr std::int64_t kOutputs = 5;
constexpr int kMlpBatch = 20;

Tensors linear_relu(torch::nn::Module& module, const Tensors& inputs) {
  return {static_cast<Dense&>(module).forward(inputs.at(0)).relu_()};
}

}  // namespace

Model make_mlp(const std::string& parameters, const std::string& input, Seed seed) {
  const std::string expected = "mlp takes N or N:float64, N features from 1 to 65536, e.g. 10";
  const auto values = parse_parameters("mlp", parameters, {{"layers", 2, 1, 1000}, {"width", 10, 1, 65536}});
  const auto given = parse_input(input, expected);
  const auto type = floating_type(given, expected);
  const std::int64_t features = given ? given->shape.front() : 10;
  if (given && (given->shape.size() != 1 || features > 65536)) throw Error("shape '" + input + "' does not fit", "--input", expected);
  const auto layers = values.at("layers");
  const auto width = values.at("width");
  check_size("mlp:" + parameters, static_cast<double>(layers) * static_cast<double>(width) * static_cast<double>(width + 1) +
                                      static_cast<double>(features) * static_cast<double>(width));

  BuiltinChain chain(type, seed);
  for (std::int64_t i = 1; i <= layers; ++i) {
    const bool last = i == layers;
    const auto name = "net" + std::to_string(i);
    chain.add({name, {name}, last ? "Linear" : "LinearReLU", name},
              std::make_shared<Dense>(i == 1 ? features : width, last ? kOutputs : width), last ? run_module<Dense> : linear_relu);
  }
  const SampleDescription sample{.inputs = {{.shape = {features}, .type = type}}, .target = {.shape = {kOutputs}, .type = type}};
  return {"mlp", chain.take(), Loss::mse(), sample, kMlpBatch};
}

}  // namespace mptune::profiler
