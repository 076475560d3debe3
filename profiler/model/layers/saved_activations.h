#pragma once

#include <memory>
#include <vector>

#include <torch/types.h>

namespace mptune::profiler {

/// What autograd saves while layers run, so that its memory can be freed between forward and backward:
///
///     SavedActivations saved(kept);
///     { const auto scope = saved.collect(); ... forward ... }
///     ... copy saved.storages() elsewhere; saved.free(); copy them back ...
///     saved.restore(copies);
///     ... backward ...
///
/// Not thread-safe; the backward, and what it leaves for later, may run in any thread after restore().
class SavedActivations {
 public:
  /// Memory of `kept` is left alone: parameters, buffers, the layers' inputs. So are sparse tensors and those that are changed in place
  /// after they were saved, for which autograd throws its own error.
  explicit SavedActivations(const std::vector<at::Tensor>& kept);
  ~SavedActivations();
  SavedActivations(const SavedActivations&) = delete;
  SavedActivations& operator=(const SavedActivations&) = delete;

  class Scope {
   public:
    virtual ~Scope() = default;
  };
  /// While the result lives, what autograd saves in the calling thread belongs to this object. Scopes do not nest.
  /// The first call makes autograd ask for it, for the whole process. Throws Error (environment) where another engine than LibTorch's own
  /// runs backwards, as in a Python program.
  [[nodiscard]] std::unique_ptr<Scope> collect();

  /// Returns the bytes of each memory block once, as one-dimensional tensors, in the order in which they were saved. Call it after the
  /// forward.
  [[nodiscard]] std::vector<at::Tensor> storages();
  /// Releases the blocks of storages(); others may still refer to them.
  void free();
  /// Puts `copies` of storages(), in the same order, in their place. Each is released when autograd has done with it.
  void restore(const std::vector<at::Tensor>& copies);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace mptune::profiler
