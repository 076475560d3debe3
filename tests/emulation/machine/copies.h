#pragma once

/// Copies and fills as runtime and driver ask for them.

#include "tests/emulation/machine/machine.h"

namespace emulation {

EMULATION_EXPORT Status copy(Stream& stream, void* destination, const void* source, std::size_t bytes);
EMULATION_EXPORT Status fill(Stream& stream, void* destination, int value, std::size_t bytes);

struct Rows {
  std::size_t bytes = 0;  ///< of a row
  std::size_t count = 0;
  std::size_t destination_pitch = 0, source_pitch = 0;
};

EMULATION_EXPORT Status copy_rows(Stream& stream, void* destination, const void* source, const Rows& rows);

}  // namespace emulation
