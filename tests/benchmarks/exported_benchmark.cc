// What the interpreter of exported programs adds to an operator: a chain of small operators as a program, through torch::nn, and plain. The
// three take turns; ratios of the medians of paired rounds are what counts.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <functional>

#include "mptune/profiler/model/exported_layer.h"
#include "mptune/profiler/statistics/samples.h"

namespace mptune {
namespace {

constexpr int kPairs = 100;  // of linear and relu
constexpr int kWidth = 16;
constexpr int kRounds = 200;

/// x -> relu(linear(x, w, b)), kPairs times, with parameters of their own.
ExportedProgram chain_program() {
  ExportedProgram program;
  const auto add_value = [&](const std::vector<SymbolicSize>& sizes, bool gradient) {
    TensorDescription about{7, sizes, std::vector<SymbolicSize>(sizes.size(), SymbolicSize(1)), SymbolicSize(0), gradient};
    program.graph.values.push_back({std::to_string(program.graph.values.size()), ValueDescription::Kind::tensor, about, {}});
    return ProgramValue{static_cast<int>(program.graph.values.size()) - 1};
  };
  const SymbolicSize width(kWidth);
  std::vector<ProgramValue> weights, biases;
  for (int i = 0; i < kPairs; ++i) {
    weights.push_back(add_value({width, width}, true));
    biases.push_back(add_value({width}, true));
    for (const int tensor : {2 * i, 2 * i + 1}) program.inputs.push_back({ProgramInput::Kind::parameter, std::to_string(tensor), true});
    program.graph.inputs.insert(program.graph.inputs.end(), {weights.back(), biases.back()});
  }
  ProgramValue x = add_value({width, width}, false);
  program.graph.inputs.emplace_back(x);
  program.inputs.push_back({ProgramInput::Kind::user, "", true});
  for (std::size_t i = 0; i < kPairs; ++i) {
    const ProgramValue y = add_value({width, width}, true);
    program.graph.nodes.push_back(
        {"torch.ops.aten.linear.default", {{"input", x}, {"weight", weights[i]}, {"bias", biases[i]}}, {y}, "", "", ""});
    x = add_value({width, width}, true);
    program.graph.nodes.push_back({"torch.ops.aten.relu.default", {{"self", y}}, {x}, "", "", ""});
  }
  program.graph.outputs.emplace_back(x);
  program.outputs.push_back({ProgramOutput::Kind::user, ""});
  return program;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void report(const char* name, const std::vector<double>& seconds, const std::vector<double>& base) {
  std::vector<double> added;
  for (std::size_t i = 0; i < seconds.size(); ++i) added.push_back((seconds[i] - base[i]) / (2 * kPairs) * 1e6);
  std::printf("  %-12s %8.3f us an operator, %+.3f us over torch::nn\n", name, median(seconds) / (2 * kPairs) * 1e6, median(added));
}

void compare(bool backward) {
  std::printf("%s\n", backward ? "forward and backward" : "forward, gradients off");
  const at::AutoGradMode mode(backward);
  torch::nn::Sequential net;
  std::map<std::string, at::Tensor> tensors;
  std::vector<std::pair<at::Tensor, at::Tensor>> plain;
  for (int i = 0; i < kPairs; ++i) {
    torch::nn::Linear linear(kWidth, kWidth);
    tensors[std::to_string(2 * i)] = linear->weight;
    tensors[std::to_string(2 * i + 1)] = linear->bias;
    plain.emplace_back(linear->weight, linear->bias);
    net->push_back(linear);
    net->push_back(torch::nn::ReLU());
  }
  auto bound = std::make_shared<const BoundProgram>(chain_program(), "benchmark", kWidth);
  const auto layer = make_exported_layer(bound, 0, bound->graph.nodes(), tensors);
  const at::Tensor input = at::randn({kWidth, kWidth});
  RunContext context;
  context.samples = kWidth;
  const auto finish = [&](const at::Tensor& output) {
    if (backward) output.sum().backward();
  };
  const auto by_program = [&] { finish(layer->forward({input}, context)[0]); };
  const auto by_modules = [&] { finish(net->forward(input)); };
  const auto by_hand = [&] {
    at::Tensor x = input;
    for (const auto& [weight, bias] : plain) x = at::relu(at::linear(x, weight, bias));
    finish(x);
  };
  std::vector<double> program, modules, hand;
  for (int round = 0; round < kRounds + 10; ++round) {
    const double a = seconds_of(by_program), b = seconds_of(by_modules), c = seconds_of(by_hand);
    if (round < 10) continue;
    program.push_back(a);
    modules.push_back(b);
    hand.push_back(c);
  }
  report("program", program, modules);
  report("torch::nn", modules, modules);
  report("plain calls", hand, modules);
}

}  // namespace
}  // namespace mptune

int main() {
  at::set_num_threads(1);
  mptune::compare(false);
  mptune::compare(true);
}
