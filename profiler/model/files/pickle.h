#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <torch/types.h>

namespace mptune::profiler {

/// Invalid pickle data. read_torch_file turns it into an Error that names the file.
class PickleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A value in the part of Python's pickle language that torch.save uses for tensors in containers.
struct PickleValue;
using PicklePointer = std::shared_ptr<PickleValue>;
struct PickleNone {};
struct PickleMark {};
struct PickleGlobal {
  std::string name;  ///< "torch._utils._rebuild_tensor_v2"
};
struct PickleSequence {
  std::vector<PicklePointer> items;
};
struct PickleDict {
  std::vector<std::pair<PicklePointer, PicklePointer>> items;
};
struct PickleStorage {
  at::ScalarType type = at::kFloat;
  std::string key;
  std::int64_t numel = 0;
};
struct PickleValue {
  std::variant<PickleNone, PickleMark, bool, std::int64_t, double, std::string, PickleGlobal, PickleSequence, PickleDict, PickleStorage,
               at::Tensor>
      content;
};

/// Returns a storage as a flat tensor of exactly `numel` elements.
using StorageReader = std::function<at::Tensor(const PickleStorage&)>;

/// Reads a pickle without running code: only tensors, parameters and OrderedDict are built. Throws PickleError for everything else, for
/// tensors that exceed their storage and for truncated or malformed input.
/// Containers inside the result become None: a state dict has none, and deep nesting needs no stack.
[[nodiscard]] PicklePointer read_pickle(std::string_view bytes, const StorageReader& storage);

/// Returns the tensors in a pickle of nested tuples, lists and dicts, depth first in order, by the same rules.
/// Throws PickleError also for more than 10,000 items.
[[nodiscard]] std::vector<at::Tensor> read_pickled_tensors(std::string_view bytes, const StorageReader& storage);

/// Returns the storage index of each contiguous tensor: tensors with the same memory share the first one's storage.
[[nodiscard]] std::vector<std::size_t> storages_of(const std::vector<std::pair<std::string, at::Tensor>>& tensors);
/// Pickles an OrderedDict of contiguous tensors, with the storages of storages_of(). Requires: strings shorter than 2^32 bytes.
[[nodiscard]] std::string write_pickle(const std::vector<std::pair<std::string, at::Tensor>>& tensors);

}  // namespace mptune::profiler
