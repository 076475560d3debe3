#include "tests/emulation/machine/copies.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/emulation/machine/status.h"

namespace emulation {

namespace {

Work copy_of(void* destination, const void* source, std::size_t bytes) {
  Work work;
  work.kind = WorkKind::copy;
  work.name = "memcpy";
  work.destination = destination;
  work.source = source;
  work.bytes = static_cast<double>(bytes);
  return work;
}

bool is_pageable(const void* address) {
  return !block_of(address);
}

void move_rows(void* destination, const void* source, const Rows& rows) {
  for (std::size_t row = 0; row < rows.count; ++row)
    std::memmove(static_cast<char*>(destination) + row * rows.destination_pitch, static_cast<const char*>(source) + row * rows.source_pitch,
                 rows.bytes);
}

}  // namespace

Status copy(Stream& stream, void* destination, const void* source, std::size_t bytes) {
  return bytes == 0 ? kSuccess : submit(stream, copy_of(destination, source, bytes));
}

Status fill(Stream& stream, void* destination, int value, std::size_t bytes) {
  if (bytes == 0) return kSuccess;
  Work work;
  work.kind = WorkKind::fill;
  work.name = "memset";
  work.destination = destination;
  work.value = value;
  work.bytes = static_cast<double>(bytes);
  return submit(stream, std::move(work));
}

Status copy_rows(Stream& stream, void* destination, const void* source, const Rows& rows) {
  if (rows.bytes == 0 || rows.count == 0) return kSuccess;
  if (rows.bytes > rows.destination_pitch || rows.bytes > rows.source_pitch) return kInvalidValue;
  Work work = copy_of(destination, source, rows.bytes * rows.count);
  if (is_pageable(source)) {
    auto taken = std::make_shared<std::vector<char>>((rows.count - 1) * rows.source_pitch + rows.bytes);
    std::memcpy(taken->data(), source, taken->size());
    work.compute = [=] { move_rows(destination, taken->data(), rows); };
  } else {
    work.compute = [=] { move_rows(destination, source, rows); };
  }
  return submit(stream, std::move(work));
}

}  // namespace emulation
