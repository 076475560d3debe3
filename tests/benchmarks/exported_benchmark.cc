// Overhead of the interpreter of exported programs per operator: a chain of small operators as a program, through torch::nn, and by plain
// calls. The three are benchmarked interleaved and compared by paired rounds.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "profiler/model/exported/layer.h"
#include "profiler/trace/statistics/samples.h"

namespace mptune::testing {
namespace {

constexpr int kPairs = 100;  // of linear and relu
constexpr int kWidth = 16;
constexpr int kRounds = 200;
constexpr int kWarmUp = 10;
constexpr int kPythonRounds = 10;

/// x -> relu(linear(x, w, b)), kPairs times, each with its own parameters.
profiler::ExportedProgram chain_program() {
  profiler::ExportedProgram program;
  const auto add_value = [&](const std::vector<profiler::SymbolicSize>& sizes, bool gradient) {
    profiler::TensorDescription about{7, sizes, std::vector<profiler::SymbolicSize>(sizes.size(), profiler::SymbolicSize(1)),
                                      profiler::SymbolicSize(0), gradient};
    program.graph.values.push_back({std::to_string(program.graph.values.size()), profiler::ValueDescription::Kind::tensor, about, {}});
    return profiler::ProgramValue{static_cast<int>(program.graph.values.size()) - 1};
  };
  const profiler::SymbolicSize width(kWidth);
  std::vector<profiler::ProgramValue> weights, biases;
  for (int i = 0; i < kPairs; ++i) {
    weights.push_back(add_value({width, width}, true));
    biases.push_back(add_value({width}, true));
    for (const int tensor : {2 * i, 2 * i + 1})
      program.inputs.push_back({profiler::ProgramInput::Kind::parameter, std::to_string(tensor), true});
    program.graph.inputs.insert(program.graph.inputs.end(), {weights.back(), biases.back()});
  }
  profiler::ProgramValue x = add_value({width, width}, false);
  program.graph.inputs.emplace_back(x);
  program.inputs.push_back({profiler::ProgramInput::Kind::user, "", true});
  for (std::size_t i = 0; i < kPairs; ++i) {
    const profiler::ProgramValue y = add_value({width, width}, true);
    program.graph.nodes.push_back(
        {"torch.ops.aten.linear.default", {{"input", x}, {"weight", weights[i]}, {"bias", biases[i]}}, {y}, "", "", ""});
    x = add_value({width, width}, true);
    program.graph.nodes.push_back({"torch.ops.aten.relu.default", {{"self", y}}, {x}, "", "", ""});
  }
  program.graph.outputs.emplace_back(x);
  program.outputs.push_back({profiler::ProgramOutput::Kind::user, ""});
  return program;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The same chain as a program, through torch::nn and by plain calls.
struct Chain {
  torch::nn::Sequential net;
  std::vector<std::pair<at::Tensor, at::Tensor>> plain;
  std::shared_ptr<const profiler::BoundProgram> bound =
      std::make_shared<const profiler::BoundProgram>(chain_program(), "benchmark", kWidth);
  std::unique_ptr<Layer> layer;
  at::Tensor input = at::randn({kWidth, kWidth});

  Chain() {
    std::map<std::string, at::Tensor> tensors;
    for (int i = 0; i < kPairs; ++i) {
      torch::nn::Linear linear(kWidth, kWidth);
      tensors[std::to_string(2 * i)] = linear->weight;
      tensors[std::to_string(2 * i + 1)] = linear->bias;
      plain.emplace_back(linear->weight, linear->bias);
      net->push_back(linear);
      net->push_back(torch::nn::ReLU());
    }
    layer = profiler::make_exported_layer(bound, 0, bound->graph.nodes(), tensors);
  }
  at::Tensor by_program() {
    RunContext context;
    context.samples = kWidth;
    return layer->forward({input}, context)[0];
  }
  at::Tensor by_modules() { return net->forward(input); }
  at::Tensor by_hand() {
    at::Tensor x = input;
    for (const auto& [weight, bias] : plain) x = at::relu(at::linear(x, weight, bias));
    return x;
  }
};

/// Microseconds per operator, measured in interleaved rounds.
struct Rounds {
  std::vector<double> program, modules, hand;
};

Rounds measure(Chain& chain, bool backward) {
  const at::AutoGradMode mode(backward);
  const auto time = [&](auto run) {
    return seconds_of([&] {
             const at::Tensor output = run();
             if (backward) output.sum().backward();
           }) /
           (2 * kPairs) * 1e6;
  };
  Rounds rounds;
  for (int round = 0; round < kRounds + kWarmUp; ++round) {
    const double a = time([&] { return chain.by_program(); });
    const double b = time([&] { return chain.by_modules(); });
    const double c = time([&] { return chain.by_hand(); });
    if (round < kWarmUp) continue;
    rounds.program.push_back(a);
    rounds.modules.push_back(b);
    rounds.hand.push_back(c);
  }
  return rounds;
}

void report(const char* name, const std::vector<double>& micros, const std::vector<double>& base) {
  std::vector<double> added;
  for (std::size_t i = 0; i < micros.size(); ++i) added.push_back(micros[i] - base[i]);
  std::printf("  %-12s %8.3f us an operator, %+.3f us over torch::nn\n", name, median(micros), median(added));
}

void compare(Chain& chain, bool backward) {
  std::printf("%s\n", backward ? "forward and backward" : "forward, gradients off");
  const Rounds rounds = measure(chain, backward);
  report("program", rounds.program, rounds.modules);
  report("torch::nn", rounds.modules, rounds.modules);
  report("plain calls", rounds.hand, rounds.modules);
}

/// Forward, and forward and backward, by eager PyTorch in Python.
std::pair<double, double> eager_micros(const std::string& python) {
  const std::string command = python + " " MPTUNE_SOURCE_DIR "/tests/benchmarks/eager_chain.py 1 " + std::to_string(kPairs) + " " +
                              std::to_string(kWidth) + " 2>/dev/null";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  double forward = 0, both = 0;
  const bool read = pipe != nullptr && std::fscanf(pipe, "%lf %lf", &forward, &both) == 2;
  if (pipe != nullptr) ::pclose(pipe);
  if (!read) throw std::runtime_error(python + " cannot import torch");
  return {forward, both};
}

/// Interleaved with Python, one process per round: Python's time relative to the program's.
void compare_with_python(Chain& chain, const std::string& python) {
  std::vector<double> forward, both;
  for (int round = 0; round < kPythonRounds; ++round) {
    const auto [eager_forward, eager_both] = eager_micros(python);
    forward.push_back(eager_forward / median(measure(chain, false).program));
    both.push_back(eager_both / median(measure(chain, true).program));
  }
  const auto print = [](const char* name, const std::vector<double>& ratios) {
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    std::printf("  eager Python takes %.2f times a program's time, %s [%.2f, %.2f]\n", median(ratios), name, *least, *most);
  };
  print("forward", forward);
  print("forward and backward", both);
}

}  // namespace
}  // namespace mptune::testing

// benchmark_exported [PYTHON]: with a Python that has torch, also measures PyTorch's eager mode.
int main(int argc, char** argv) {
  at::set_num_threads(1);
  mptune::testing::Chain chain;
  mptune::testing::compare(chain, false);
  mptune::testing::compare(chain, true);
  if (argc > 1) mptune::testing::compare_with_python(chain, argv[1]);
}
