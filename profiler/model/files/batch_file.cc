#include "profiler/model/files/batch_file.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <set>

#include "profiler/base/error.h"
#include "profiler/model/files/sample_files.h"
#include "profiler/model/layers/scalar_types.h"

namespace mptune {
namespace {

const at::Tensor* find(const profiler::TensorDict& dict, const std::string& name) {
  const at::Tensor* found = nullptr;
  for (const auto& [key, tensor] : dict) found = key == name ? &tensor : found;
  return found;
}

// Returns the names of tensors that load_batch expects: "'words', 'mask' and 'target'".
std::string expected_names(const SampleDescription& sample, bool with_target) {
  std::vector<std::string> names;
  for (const auto& input : sample.inputs) names.push_back(input.name.empty() ? "input" : input.name);
  if (with_target) names.emplace_back("target");
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " and ") + ("'" + names[i] + "'");
  return text;
}

// Returns a tensor of the file. Throws Error with `remedy` if it does not match `about`.
at::Tensor checked(const profiler::TensorDict& dict, const std::string& name, const SampleTensor& about, const std::string& path,
                   const std::string& remedy, std::optional<std::int64_t> ignored = {}) {
  const auto* tensor = find(dict, name);
  if (tensor == nullptr) throw Error("there is no '" + name + "'", path, remedy);
  std::vector<std::int64_t> sizes{tensor->dim() > 0 ? tensor->size(0) : 0};
  sizes.insert(sizes.end(), about.shape.begin(), about.shape.end());
  if (tensor->dim() == 0 || tensor->size(0) == 0 || tensor->sizes() != at::IntArrayRef(sizes) || tensor->scalar_type() != about.type) {
    throw Error("'" + name + "' is " + profiler::tensor_text(tensor->sizes(), tensor->scalar_type()) + ", each sample of it must be " +
                    profiler::tensor_text(about.shape, about.type),
                path, remedy);
  }
  if (at::isIntegralType(about.type, /*includeBool=*/false) && about.classes > 0) {
    at::Tensor wrong = tensor->lt(0) | tensor->ge(about.classes);
    if (ignored) wrong = wrong & tensor->ne(*ignored);
    if (const at::Tensor values = tensor->masked_select(wrong); values.numel() > 0)
      throw Error("'" + name + "' has the value " + std::to_string(values[0].item<std::int64_t>()), path,
                  "use values from 0 to " + std::to_string(about.classes - 1) +
                      (ignored ? ", and " + std::to_string(*ignored) + " for targets that don't count" : ""));
  }
  return *tensor;
}

}  // namespace

Batch load_batch(const std::string& path, const SampleDescription& sample, std::int64_t ignored) {
  const auto dict = profiler::read_samples(path);
  const bool wanted = at::isFloatingType(sample.target.type) || sample.target.classes > 0;
  const std::string remedy =
      "save a dict with the tensors " + expected_names(sample, wanted) + ", samples first, each of the model's shape and type";
  const auto check_samples = [&](const at::Tensor& first, const std::string& first_name, const at::Tensor& tensor,
                                 const std::string& name) {
    if (tensor.size(0) != first.size(0)) {
      throw Error(
          "'" + first_name + "' has " + std::to_string(first.size(0)) + " samples, '" + name + "' " + std::to_string(tensor.size(0)), path,
          "save as many of each");
    }
  };
  Batch batch;
  std::string first_name;
  std::set<std::string> used;
  for (const auto& input : sample.inputs) {
    const bool only = sample.inputs.size() == 1 && (input.name.empty() || find(dict, "input") != nullptr);
    const std::string name = only ? "input" : input.name;
    first_name = first_name.empty() ? name : first_name;
    used.insert(name);
    batch.inputs.push_back(checked(dict, name, input, path, remedy));
    check_samples(batch.inputs.front(), first_name, batch.inputs.back(), name);
  }
  const bool is_input = std::any_of(sample.inputs.begin(), sample.inputs.end(), [](const auto& input) { return input.name == "target"; });
  if (wanted || (!is_input && find(dict, "target") != nullptr)) {
    batch.target = checked(dict, "target", sample.target, path, remedy, ignored);
    check_samples(batch.inputs.front(), first_name, batch.target, "target");
    used.insert("target");
  }
  for (const auto& [key, tensor] : dict)
    if (!used.contains(key)) throw Error("the model takes no '" + key + "'", path, remedy + ", and no others");
  return batch;
}

}  // namespace mptune
