#pragma once

#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "profiler/device/memory_shortage.h"

namespace mptune::profiler {

/// Counts bytes of tensors on the streams of one device, as requested, until LibTorch's allocator may reuse them.
/// Thread-safe; lives until the process ends.
class CudaAccount {
 public:
  explicit CudaAccount(std::string name) : name_(std::move(name)) {}
  CudaAccount(const CudaAccount&) = delete;
  CudaAccount& operator=(const CudaAccount&) = delete;

  [[nodiscard]] std::int64_t current_bytes() const { return current_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  [[nodiscard]] std::int64_t cap_bytes() const { return cap_; }
  [[nodiscard]] std::int64_t refused_bytes() const { return refused_; }
  void reset_peak() { peak_ = current_.load(); }
  void set_cap_bytes(std::int64_t bytes);
  /// Resets everything but the current bytes.
  void begin_anew();

  void charge(std::int64_t bytes);
  void release(std::int64_t bytes) { current_ -= bytes; }
  void refused(std::int64_t bytes) { refused_ = bytes; }
  /// The memory shortage that is asked to free memory before an allocation is refused, for lack of memory or because of the cap.
  [[nodiscard]] MemoryShortage& shortage() { return shortage_; }
  /// True if an allocation of `bytes` more stays within the cap.
  [[nodiscard]] bool is_within_cap(std::int64_t bytes) const;
  /// Throws c10::OutOfMemoryError if an allocation of `bytes` more would exceed the cap.
  void require(std::int64_t bytes);

 private:
  std::string name_;
  std::atomic<std::int64_t> current_{0};
  std::atomic<std::int64_t> peak_{0};
  std::atomic<std::int64_t> cap_{0};
  std::atomic<std::int64_t> refused_{0};
  MemoryShortage shortage_;
};

/// Charges allocations on `stream` to `account` from now on. `account` must live until the process ends. Requires: LibTorch's CUDA is
/// initialised.
void charge_stream(const c10::cuda::CUDAStream& stream, CudaAccount& account);

}  // namespace mptune::profiler
