#pragma once

/// What the emulated NVRTC hands out as "cubin": a shared object of the host that exports a table of its kernels. Who loads it
/// (cudaLibraryLoadData) writes image_bytes() of it into a memfd, opens that with dlopen(), and looks
/// kImageSymbol up with dlsym().

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace emulation {

/// Runs a kernel's whole grid, one thread after another, on the calling thread. `arguments`: as cudaLaunchKernel gets them, an address for
/// each parameter, read while the kernel runs: who enqueues a launch copies the arguments first (KernelEntry::parameter_bytes), each to a
/// multiple of 16. Several calls may run at once.
using RunKernel = void (*)(void** arguments, const std::uint32_t* blocks, const std::uint32_t* threads);

struct KernelEntry {
  const char* name = nullptr;  ///< as cudaLibraryGetKernel asks for it
  RunKernel run = nullptr;
  std::uint32_t parameters = 0;
  const std::uint32_t* parameter_bytes = nullptr;  ///< the size of each parameter
};

/// The symbol kImageSymbol of the shared object: `const emulation::KernelImage emulated_kernel_image`.
struct KernelImage {
  std::uint32_t version = 0;  ///< kImageVersion
  std::uint32_t count = 0;
  const KernelEntry* kernels = nullptr;
};

inline constexpr std::uint32_t kImageVersion = 1;
inline constexpr const char* kImageSymbol = "emulated_kernel_image";

/// Size of the image at `data`, which CUDA's functions don't get; 0 if it is no such image (a real cubin, a fatbin, PTX). The tail of the
/// image must be readable, which it is of what nvrtcGetCUBIN wrote.
inline std::size_t image_bytes(const void* data) {
  Elf64_Ehdr header{};
  if (data == nullptr || std::memcmp(data, ELFMAG, SELFMAG) != 0) return 0;
  std::memcpy(&header, data, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN) return 0;
  const auto* bytes = static_cast<const char*>(data);
  std::size_t end = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    std::memcpy(&segment, bytes + header.e_phoff + i * header.e_phentsize, sizeof segment);
    end = std::max<std::size_t>(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

}  // namespace emulation
