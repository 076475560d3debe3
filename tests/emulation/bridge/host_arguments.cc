#include "tests/emulation/bridge/host_arguments.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/emulation/machine/machine.h"

namespace emulation {

namespace {

/// Not of LibTorch's allocator, which programs replace to count the memory of their CPU devices.
c10::Storage own_storage(std::size_t bytes) {
  void* memory = std::calloc(std::max<std::size_t>(bytes, 1), 1);
  if (memory == nullptr) throw std::bad_alloc();
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(memory, memory, &std::free, at::kCPU), c10::GetCPUAllocator(),
                      /*resizable=*/true);
}

at::Tensor tensor_over(c10::Storage storage, const at::Tensor& model, std::int64_t offset) {
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), model.dtype());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(model.sizes(), model.strides(), offset);
  if (model.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (model.is_conj()) tensor._set_conj(true);
  if (model.is_neg()) tensor._set_neg(true);
  return tensor;
}

/// The host reads its tensors at the call. Wrapped numbers are made for the call, so no stream can write them.
at::Tensor copy_of_host_tensor(const at::Tensor& tensor) {
  const Extent extent = extent_of(tensor);
  c10::Storage storage = own_storage(extent.bytes);
  if (extent.bytes > 0) {
    if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) host_uses({{extent.begin, extent.bytes, false}}, "an argument in host memory");
    std::memcpy(storage.mutable_data(), extent.begin, extent.bytes);
  }
  return tensor_over(std::move(storage), tensor, 0);
}

}  // namespace

Extent extent_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  std::int64_t elements = 1;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) elements += (tensor.size(i) - 1) * tensor.stride(i);
  return {static_cast<char*>(const_cast<void*>(tensor.const_data_ptr())), static_cast<std::size_t>(elements) * tensor.itemsize()};
}

c10::Storage HostArguments::storage_of(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  const c10::StorageImpl* key = storage.unsafeGetStorageImpl();
  for (const auto& [known, made] : storages_)
    if (known == key) return made;
  c10::Storage made;
  if (memory_ == Memory::zeros) {
    made = own_storage(storage.nbytes());
  } else {
    // mutable_data(): a storage that is copied when written is copied now.
    made = c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), at::DataPtr(storage.mutable_data(), at::kCPU));
  }
  storages_.emplace_back(key, made);
  return made;
}

at::Tensor HostArguments::of(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const c10::TensorImpl* key = tensor.unsafeGetTensorImpl();
  for (const auto& [known, made] : tensors_)
    if (known == key) return made;
  at::Tensor made = tensor.is_cuda() ? tensor_over(storage_of(tensor), tensor, tensor.storage_offset()) : copy_of_host_tensor(tensor);
  tensors_.emplace_back(key, made);
  return made;
}

void HostArguments::own_memory_for(const at::Tensor& tensor) {
  tensors_.emplace_back(tensor.unsafeGetTensorImpl(), tensor_over(own_storage(extent_of(tensor).bytes), tensor, 0));
}

c10::IValue HostArguments::of(const c10::IValue& value) {
  if (value.isTensor()) return of(value.toTensor());
  if (value.isDevice()) return c10::Device(c10::DeviceType::CPU);
  if (!value.isList()) return value;
  const auto elements = value.toListRef();
  if (std::none_of(elements.begin(), elements.end(), [](const c10::IValue& element) { return element.isTensor(); })) return value;
  c10::impl::GenericList list = value.toList().copy();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list.get(i).isTensor()) list.set(i, of(list.get(i)));
  return list;
}

torch::jit::Stack HostArguments::of(const Values& values) {
  torch::jit::Stack stack;
  stack.reserve(values.size());
  for (const c10::IValue& value : values) stack.push_back(of(value));
  return stack;
}

}  // namespace emulation
