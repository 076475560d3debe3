#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mptune::profiler {

/// Buffers for CUPTI, zeroed before each use. take() and give() run on threads of the recorded program, so they neither lock nor allocate.
class CuptiBuffers {
 public:
  static constexpr std::size_t kBytes = std::size_t{4} << 20;
  static constexpr std::size_t kCount = 512;  ///< 2 GiB, 7 million launches; memory is used as it is written to

  /// Throws Error (environment) if the address space is limited to less.
  CuptiBuffers();
  ~CuptiBuffers();
  CuptiBuffers(const CuptiBuffers&) = delete;
  CuptiBuffers& operator=(const CuptiBuffers&) = delete;

  /// Maps the pages of the first buffers, so that the recorded program does not wait for that.
  void prepare();
  /// Returns a buffer of kBytes; null while all are in use.
  [[nodiscard]] std::byte* take();
  /// Takes back a buffer of take(), with `valid` bytes written at its start.
  void give(std::byte* buffer, std::size_t valid);

  /// Calls `use(std::span<std::byte>)` for every buffer that give() returned since the last call, and frees it. Call from one thread.
  template <typename Use>
  void drain(Use use) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (states_[i].load(std::memory_order_acquire) != State::full) continue;
      use(std::span(buffer(i), valid_[i]));
      clear(i);
    }
  }

 private:
  enum class State : std::uint8_t { free, taken, full };

  std::byte* buffer(std::size_t index) const { return memory_ + index * kBytes; }
  void clear(std::size_t index);

  std::byte* memory_ = nullptr;
  std::array<std::atomic<State>, kCount> states_{};
  std::array<std::size_t, kCount> valid_{};
  std::atomic<std::size_t> next_{0};  // where to start looking for a free buffer
};

}  // namespace mptune::profiler
