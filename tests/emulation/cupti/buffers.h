#pragma once

/// The client's buffers: asked for by its one callback, filled, and given back by its other.

#include <cupti.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>

#include "tests/emulation/cupti/threads.h"

namespace emulation::cupti {

class Buffers {
 public:
  void use_callbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);
  [[nodiscard]] bool has_callbacks();
  /// Every thread fills a buffer of its own. As CUPTI's attribute of this name, which is 1 unless a client changes it.
  void set_per_thread(bool yes) { per_thread_ = yes; }

  /// Appends a record of what this thread did. Without a buffer that holds it, it counts as dropped.
  template <typename Record>
  void write(const Record& record) {
    write_bytes(per_thread_ ? thread_number() : kOfAllThreads, &record, sizeof(Record));
  }
  /// The same for what a GPU did: all GPUs share a buffer.
  template <typename Record>
  void write_of_gpu(const Record& record) {
    write_bytes(kOfAllThreads, &record, sizeof(Record));
  }

  /// Gives full buffers back, and unless `full_only` those that hold some records. Waits for other threads that give buffers back.
  void flush(bool full_only);

  /// Counts a record that is lost.
  void drop() { ++dropped_; }
  /// Records lost since the last call.
  [[nodiscard]] std::size_t take_dropped() { return dropped_.exchange(0); }

  /// Forgets callbacks and buffers.
  void forget();

 private:
  struct Buffer {
    std::uint8_t* memory = nullptr;
    std::size_t size = 0;
    std::size_t most_records = 0;  ///< 0: as many as fit
    std::size_t valid = 0;
    std::size_t records = 0;
    CUpti_BuffersCallbackCompleteFunc complete = nullptr;

    [[nodiscard]] bool holds(std::size_t bytes) const {
      return memory != nullptr && valid + bytes <= size && (most_records == 0 || records < most_records);
    }
    void append(const void* record, std::size_t bytes);
  };

  static constexpr std::uint32_t kOfAllThreads = 0;

  void write_bytes(std::uint32_t thread, const void* record, std::size_t bytes);
  void replace(Buffer& buffer);
  void give_back_full();

  std::mutex mutex_;  // guards what follows
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::map<std::uint32_t, Buffer> filling_;  // by thread
  std::deque<Buffer> full_;

  std::recursive_mutex giving_back_;  // held while the client's callback runs, which may write records; never taken under mutex_
  std::atomic<std::size_t> full_count_ = 0;
  std::atomic<std::size_t> dropped_ = 0;
  std::atomic<bool> per_thread_ = true;
};

/// Those of the process.
[[nodiscard]] Buffers& buffers();

}  // namespace emulation::cupti
