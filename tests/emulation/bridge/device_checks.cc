#include "tests/emulation/bridge/device_checks.h"

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAFunctions.h>

#include <optional>
#include <string_view>

#include "tests/emulation/bridge/host_arguments.h"

namespace emulation {

namespace {

std::optional<c10::Device> first_gpu(const Values& arguments) {
  std::optional<c10::Device> gpu;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, std::size_t) {
    if (!gpu && tensor.is_cuda()) gpu = tensor.device();
  });
  return gpu;
}

c10::Device gpu_of_options(const Values& arguments) {
  for (const c10::IValue& value : arguments)
    if (value.isDevice() && value.toDevice().is_cuda() && value.toDevice().has_index()) return value.toDevice();
  return {c10::DeviceType::CUDA, c10::cuda::current_device()};
}

bool is_allowed(const OperatorFacts& facts, const at::Tensor& tensor, std::size_t argument, c10::Device gpu) {
  if (tensor.device() == gpu) return true;
  return tensor.is_cpu() && !facts.written[argument] && (tensor.dim() == 0 || facts.takes_host_tensors);
}

}  // namespace

c10::Device checked_device(const OperatorFacts& facts, const Values& arguments) {
  const std::optional<c10::Device> gpu = first_gpu(arguments);
  if (!gpu) return gpu_of_options(arguments);
  for_each_tensor(arguments, [&](const at::Tensor& tensor, std::size_t i) {
    TORCH_CHECK(is_allowed(facts, tensor, i, *gpu), "Expected all tensors to be on the same device, but got ",
                facts.handle.schema().arguments()[i].name(), " is on ", tensor.device(), ", different from other tensors on ", *gpu,
                " (when checking argument in method wrapper_CUDA_", std::string_view(facts.name).substr(std::string_view("aten::").size()),
                ")");
  });
  return *gpu;
}

}  // namespace emulation
