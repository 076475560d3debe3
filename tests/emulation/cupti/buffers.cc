#include "tests/emulation/cupti/buffers.h"

#include <cstring>

#include "tests/emulation/cupti/clock.h"
#include "tests/emulation/cupti/overheads.h"
#include "tests/emulation/cupti/record_walk.h"

namespace emulation::cupti {

namespace {

template <typename Record>
void convert_span(CUpti_Activity* activity, const GpuTimes& times) {
  auto& record = *reinterpret_cast<Record*>(activity);
  record.start = times.converted(record.start);
  record.end = times.converted(record.end);
}

void convert_kernel(CUpti_Activity* activity, const GpuTimes& times) {
  convert_span<CUpti_ActivityKernel10>(activity, times);
  auto& record = *reinterpret_cast<CUpti_ActivityKernel10*>(activity);
  record.completed = record.end;
}

void convert_event(CUpti_Activity* activity, const GpuTimes& times) {
  auto& record = *reinterpret_cast<CUpti_ActivityCudaEvent2*>(activity);
  record.deviceTimestamp = times.converted(record.deviceTimestamp);
}

void convert_record(CUpti_Activity* activity, const GpuTimes& times) {
  switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return convert_kernel(activity, times);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return convert_span<CUpti_ActivityMemcpy6>(activity, times);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return convert_span<CUpti_ActivityMemcpyPtoP4>(activity, times);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return convert_span<CUpti_ActivityMemset4>(activity, times);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return convert_event(activity, times);
    default:
      return;  // the host's times are CUPTI's already
  }
}

// CUPTI, too, brings the GPUs' times to its own clock only here.
void convert_times(std::uint8_t* buffer, std::size_t valid) {
  const GpuTimes times;
  if (!times.differ()) return;
  CUpti_Activity* record = nullptr;
  while (next_record(buffer, valid, record) == CUPTI_SUCCESS) convert_record(record, times);
}

}  // namespace

Buffers& buffers() {
  static Buffers& object = *new Buffers;
  return object;
}

void Buffers::use_callbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  const std::lock_guard lock(mutex_);
  request_ = request;
  complete_ = complete;
}

bool Buffers::has_callbacks() {
  const std::lock_guard lock(mutex_);
  return request_ != nullptr;
}

void Buffers::Buffer::append(const void* record, std::size_t bytes) {
  std::memcpy(memory + valid, record, bytes);
  valid += bytes;
  ++records;
}

void Buffers::write_bytes(std::uint32_t thread, const void* record, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (request_ == nullptr) return;
    Buffer& buffer = filling_[thread];
    if (!buffer.holds(bytes)) replace(buffer);
    if (buffer.holds(bytes))
      buffer.append(record, bytes);
    else
      ++dropped_;
  }
  if (full_count_ > 0) give_back_full();
}

// The client's callback runs under the mutex, as a thread that finds another one asking waits for it in CUPTI, too.
void Buffers::replace(Buffer& buffer) {
  if (buffer.valid > 0) {
    full_.push_back(buffer);
    ++full_count_;
  }
  if (buffer.memory == nullptr || buffer.valid > 0) {
    const std::uint64_t began = now();
    buffer = {.complete = complete_};
    request_(&buffer.memory, &buffer.size, &buffer.most_records);
    constexpr std::size_t kAmple = 1024;
    const auto overhead = overhead_of_request(began, now());
    if (overhead.has_value() && buffer.size >= kAmple && buffer.most_records == 0) buffer.append(&*overhead, sizeof *overhead);
  }
}

void Buffers::give_back_full() {
  const std::lock_guard giving_back(giving_back_);
  while (true) {
    Buffer buffer;
    {
      const std::lock_guard lock(mutex_);
      if (full_.empty()) return;
      buffer = full_.front();
      full_.pop_front();
      --full_count_;
    }
    convert_times(buffer.memory, buffer.valid);
    buffer.complete(nullptr, 0, buffer.memory, buffer.size, buffer.valid);
  }
}

void Buffers::flush(bool full_only) {
  if (!full_only) {
    const std::lock_guard lock(mutex_);
    for (auto& [thread, buffer] : filling_) {
      if (buffer.valid == 0) continue;
      full_.push_back(buffer);
      ++full_count_;
      buffer = {};
    }
  }
  give_back_full();
}

void Buffers::forget() {
  const std::lock_guard lock(mutex_);
  request_ = nullptr;
  complete_ = nullptr;
  filling_.clear();
  full_.clear();
  full_count_ = 0;
}

}  // namespace emulation::cupti
