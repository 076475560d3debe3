#include "tests/emulation/bridge/random.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <mutex>

namespace emulation {

namespace {

constexpr std::uint64_t kNumbersPerKernel = 4;  // LibTorch's kernels take multiples of this

/// The finaliser of splitmix64: neighbouring seeds and offsets give unrelated sequences.
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

at::Generator drawn_generator(const c10::IValue& given, c10::Device gpu) {
  at::Generator source = given.isGenerator() ? given.toGenerator() : at::cuda::detail::getDefaultCUDAGenerator(gpu.index());
  TORCH_CHECK(source.device().is_cuda(), "Expected a 'cuda' device type for generator but found '", source.device().type(), "'");
  const std::lock_guard lock(source.mutex());
  const auto [seed, offset] = source.get<at::CUDAGeneratorImpl>()->philox_engine_inputs(kNumbersPerKernel);
  return at::detail::createCPUGenerator(mixed(seed + mixed(offset)));
}

void compute_dropout(const OperatorFacts&, torch::jit::Stack& stack, const at::Generator& generator) {
  const at::Tensor input = stack.at(0).toTensor();
  const double probability = stack.at(1).toDouble();
  const bool trains = stack.at(2).isNone() || stack.at(2).toBool();
  at::Tensor kept = at::ones_like(input, input.options().dtype(at::kBool));
  at::Tensor output;
  if (!trains) {
    output = input.clone();
  } else {
    kept.bernoulli_(1 - probability, generator);
    output = input * kept * (probability < 1 ? 1 / (1 - probability) : 0);
  }
  stack = {output, kept};
}

}  // namespace emulation
