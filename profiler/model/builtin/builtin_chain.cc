#include "profiler/model/builtin/builtin_chain.h"

#include <ATen/CPUGeneratorImpl.h>

#include <torch/nn/module.h>

#include "profiler/model/builtin/primitives.h"

namespace mptune::profiler {

void initialise_usually(torch::nn::Module& root, at::Generator& generator) {
  for (const auto& module : root.modules())
    if (auto* convolution = module->as<Convolution>())
      convolution->initialise(generator);
    else if (auto* dense = module->as<Dense>())
      dense->initialise(generator);
    else if (auto* transposed = module->as<TransposedConvolution>())
      transposed->initialise(generator);
}

BuiltinChain::BuiltinChain(at::ScalarType type, std::optional<std::uint64_t> seed, Initialise initialise)
    : type_(type), initialise_(initialise) {
  if (seed) generator_ = at::make_generator<at::CPUGeneratorImpl>(*seed);
}

void BuiltinChain::prepare(torch::nn::Module& module) {
  if (generator_) initialise_(module, *generator_);
  convert(module, type_);
}

}  // namespace mptune::profiler
