// compare_exported MODEL.pt2 REFERENCE [CUTS]: runs an exported program as a chain of layers and compares loss, gradients and buffers with
// those that Python's eager PyTorch left in REFERENCE. CUTS: none (one piece), useful (the default), or positions such as 3,17.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "mptune/profiler/model/exported_archive.h"
#include "mptune/profiler/model/exported_layer.h"
#include "mptune/profiler/model/torch_file.h"
#include "mptune/profiler/trace/error.h"
#include "mptune/profiler/trace/text.h"

namespace mptune {
namespace {

struct Agreement {
  int equal = 0, different = 0;
  double worst = 0;
  std::string worst_name;

  void add(const std::string& name, const at::Tensor& ours, const at::Tensor& theirs) {
    if (ours.sizes() == theirs.sizes() && ours.equal(theirs)) {
      ++equal;
      return;
    }
    ++different;
    const double scale = std::max(1e-6, theirs.to(at::kDouble).abs().max().item<double>());
    const double error =
        ours.sizes() == theirs.sizes() ? (ours.to(at::kDouble) - theirs.to(at::kDouble)).abs().max().item<double>() / scale : INFINITY;
    if (!(error <= worst)) {
      worst = error;
      worst_name = name;
    }
  }
};

std::vector<int> positions_of(const std::string& text, const BoundProgram& bound) {
  std::vector<int> cuts{0};
  if (text == "useful") {
    for (const int cut : bound.cuts.useful()) cuts.push_back(cut);
  } else if (text != "none") {
    for (const std::string& part : split(text, ',')) cuts.push_back(static_cast<int>(integer(part).value()));
  }
  cuts.push_back(bound.graph.nodes());
  return cuts;
}

struct Chain {
  std::vector<std::unique_ptr<Layer>> layers;
  std::map<std::string, at::Tensor> gradients, buffers;

  /// Forward and backward with detached boundaries, as stages of a pipeline would.
  at::Tensor step(const Tensors& inputs, std::int64_t samples) {
    std::vector<Tensors> entered, left;
    Tensors values = inputs;
    RunContext context;
    context.samples = samples;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      Tensors leaves;
      for (const at::Tensor& value : values) {
        leaves.push_back(value.detach());
        if (value.requires_grad()) leaves.back().requires_grad_();
      }
      entered.push_back(leaves);
      values = layers[i]->forward(leaves, context);
      left.push_back(values);
      std::vector<std::vector<BatchStatistics>> by_norm;
      for (BatchStatistics& norm : layers[i]->take_statistics()) by_norm.push_back({std::move(norm)});
      layers[i]->commit_statistics(by_norm);
    }
    at::Tensor loss = values[0].dim() == 0 ? values[0] : values[0].square().mean();
    loss.backward();
    for (std::size_t i = layers.size() - 1; i-- > 0;) {
      torch::autograd::variable_list roots, gradients_of_roots;
      for (std::size_t k = 0; k < left[i].size(); ++k) {
        const at::Tensor& gradient = entered[i + 1][k].grad();
        if (!left[i][k].requires_grad() || !gradient.defined()) continue;
        roots.push_back(left[i][k]);
        gradients_of_roots.push_back(gradient);
      }
      if (!roots.empty()) torch::autograd::backward(roots, gradients_of_roots);
    }
    for (const auto& layer : layers) {
      for (const NamedTensor& parameter : layer->parameters()) {
        if (!parameter.tensor.grad().defined()) continue;
        at::Tensor& sum = gradients[parameter.name];
        sum = sum.defined() ? sum + parameter.tensor.grad() : parameter.tensor.grad();
      }
      for (const NamedTensor& buffer : layer->buffers()) buffers[buffer.name] = buffer.tensor;
    }
    return loss.detach();
  }
};

int compare(const std::string& model, const std::string& reference, const std::string& cuts) {
  at::set_num_threads(1);
  const TensorDict expected = read_torch_file(reference);
  std::map<std::string, at::Tensor> by_name(expected.begin(), expected.end());
  Tensors inputs;
  for (int i = 0; by_name.count("input." + std::to_string(i)) > 0; ++i) inputs.push_back(by_name["input." + std::to_string(i)]);
  const std::int64_t samples = inputs.at(0).size(0);

  const ExportedArchive archive = read_exported_archive(model);
  auto bound = std::make_shared<const BoundProgram>(archive.program, model, samples);
  Chain chain;
  const std::vector<int> positions = positions_of(cuts, *bound);
  for (std::size_t i = 0; i + 1 < positions.size(); ++i)
    chain.layers.push_back(make_exported_layer(bound, positions[i], positions[i + 1], archive.tensors));
  at::manual_seed(7);
  Agreement gradients, buffers, loss;
  loss.add("loss", chain.step(inputs, samples), by_name.at("loss"));
  for (const auto& [name, tensor] : by_name) {
    if (name.starts_with("gradient.")) {
      const auto found = chain.gradients.find(name.substr(9));
      if (found != chain.gradients.end()) {
        gradients.add(name, found->second, tensor);
      } else if (tensor.abs().max().item<double>() != 0) {
        gradients.add(name, {}, tensor);
      }
    }
    if (name.starts_with("buffer.") && chain.buffers.count(name.substr(7)) > 0) buffers.add(name, chain.buffers[name.substr(7)], tensor);
  }
  std::printf("nodes %d layers %zu loss %s gradients %d equal, %d not (%.1e %s) buffers %d equal, %d not (%.1e %s)\n", bound->graph.nodes(),
              chain.layers.size(), loss.different == 0 ? "equal" : "differs", gradients.equal, gradients.different, gradients.worst,
              gradients.worst_name.c_str(), buffers.equal, buffers.different, buffers.worst, buffers.worst_name.c_str());
  const double worst = std::max({loss.worst, gradients.worst, buffers.worst});
  return worst <= (cuts == "none" ? 0 : 1e-5) && gradients.equal + gradients.different > 0 ? 0 : 1;
}

}  // namespace
}  // namespace mptune

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    return mptune::compare(argv[1], argv[2], argc > 3 ? argv[3] : "useful");
  } catch (const mptune::Error& error) {
    std::fprintf(stderr, "%s: %s; %s\n", error.what(), error.where().c_str(), error.remedy().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 2;
}
