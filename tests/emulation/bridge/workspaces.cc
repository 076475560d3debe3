#include "tests/emulation/bridge/workspaces.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "tests/emulation/machine/machine.h"

namespace emulation {

namespace {

/// A thread's handles of cuBLAS, one per GPU. As in LibTorch, a thread that ends leaves them to the next.
class Handles {
 public:
  ~Handles() {
    const std::lock_guard lock(mutex());
    for (const auto& [gpu, handle] : mine_) unused()[gpu].push_back(handle);
  }
  void* of(int gpu) {
    const auto [place, is_new] = mine_.try_emplace(gpu, nullptr);
    if (is_new) place->second = taken(gpu);
    return place->second;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex& all = *new std::mutex;
    return all;
  }
  static std::map<int, std::vector<void*>>& unused() {
    static auto& all = *new std::map<int, std::vector<void*>>;
    return all;
  }
  /// Handles are numbers: nothing is behind them.
  static void* taken(int gpu) {
    static std::uintptr_t made = 0;
    const std::lock_guard lock(mutex());
    std::vector<void*>& free = unused()[gpu];
    if (free.empty()) return reinterpret_cast<void*>(++made);  // NOLINT(performance-no-int-to-ptr)
    void* handle = free.back();
    free.pop_back();
    return handle;
  }

  std::map<int, void*> mine_;
};

}  // namespace

void take_workspace() {
  static const auto bytes = static_cast<std::size_t>(setting("WORKSPACE", 0));
  if (bytes == 0) return;
  thread_local Handles handles;
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  const std::tuple<void*, void*> key{handles.of(stream.device_index()), static_cast<void*>(stream.stream())};
  // LibTorch's own map, so that its functions that give workspaces back do.
  at::cuda::WorkspaceMapWithMutex& taken = at::cuda::cublas_handle_stream_to_workspace();
  const std::lock_guard lock(taken.mutex);
  if (!taken.map.contains(key)) taken.map.emplace(key, c10::cuda::CUDACachingAllocator::get()->allocate(bytes));
}

}  // namespace emulation
