#include "profiler/model/files/sample_files.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>

#include "profiler/base/error.h"
#include "profiler/model/files/npy_file.h"
#include "profiler/model/files/safetensors.h"

namespace mptune::profiler {
namespace {

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// Returns the arrays in a folder: NAME.npy is the tensor NAME.
TensorDict arrays_in(const std::string& folder) {
  TensorDict arrays;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".npy") arrays.emplace_back(entry.path().stem().string(), map_npy_file(entry.path().string()));
  if (arrays.empty())
    throw Error("the folder has no .npy files", folder, "write input.npy and target.npy with numpy.save, or give a file of torch.save");
  std::ranges::sort(arrays, {}, [](const auto& array) { return array.first; });
  return arrays;
}

}  // namespace

TensorDict read_samples(const std::string& path) {
  if (is_folder(path)) return arrays_in(path);
  TensorDict tensors = is_safetensors(path) ? read_safetensors(path) : read_torch_file(path);
  // The file's tensors are views of all its bytes.
  for (auto& [name, tensor] : tensors) tensor = tensor.clone(at::MemoryFormat::Contiguous);
  return tensors;
}

}  // namespace mptune::profiler
