#pragma once

/// Records of NVTX's ranges and marks (CUPTI_ACTIVITY_KIND_MARKER and MARKER_DATA).

#include <nvtx3/nvToolsExt.h>

#include <cstdint>

namespace emulation::cupti {

/// A domain, which is what the program's handle points to. Null: the default domain.
struct NvtxDomain {
  const char* name = nullptr;  ///< interned
};

/// A registered string likewise.
struct NvtxString {
  const char* text = nullptr;  ///< interned
};

/// Interned, in UTF-8.
[[nodiscard]] const char* interned(const char* text);
[[nodiscard]] const char* interned(const wchar_t* text);
/// The message of an event; null: it has none.
[[nodiscard]] const char* message_of(const nvtxEventAttributes_t& attributes);

/// What one mark or the begin of a range says.
struct NvtxText {
  const NvtxDomain* domain = nullptr;
  const char* text = nullptr;
  const nvtxEventAttributes_t* attributes = nullptr;  ///< null: only a text
};

void mark(const NvtxText& text);
/// Returns the range's number.
std::uint64_t start_range(const NvtxText& text);
void end_range(const NvtxDomain* domain, std::uint64_t range);
/// Ranges of a thread within each other. Both return the range's depth, 0 for the outermost; pop_range() NVTX_NO_PUSH_POP_TRACKING if there
/// is none.
int push_range(const NvtxText& text);
int pop_range(const NvtxDomain* domain);

}  // namespace emulation::cupti
