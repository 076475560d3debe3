#include "profiler/model/plugin/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

#include "profiler/base/error.h"

namespace mptune::profiler {
namespace {

constexpr const char* kRemedy = "build the plug-in again: add_library(net MODULE net.cc), linked with mptune::mptune";
constexpr std::uint64_t kMostObjectBytes = 1 << 16;

class File {
 public:
  explicit File(const std::string& path) : path_(path), stream_(path, std::ios::binary) {
    stream_.seekg(0, std::ios::end);
    bytes_ = stream_ ? static_cast<std::uint64_t>(stream_.tellg()) : 0;
  }

  // Loading a truncated library would crash the process.
  void require(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > bytes_ || bytes > bytes_ - offset) throw Error("the shared library is cut short", path_, kRemedy);
  }
  std::string bytes(std::uint64_t offset, std::uint64_t count) {
    require(offset, count);
    std::string result(count, '\0');
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(result.data(), static_cast<std::streamsize>(count));
    return result;
  }
  template <class Record>
  std::vector<Record> records(std::uint64_t offset, std::uint64_t count) {
    const auto data = bytes(offset, count * sizeof(Record));
    std::vector<Record> result(count);
    std::memcpy(result.data(), data.data(), data.size());
    return result;
  }

 private:
  std::string path_;
  std::ifstream stream_;
  std::uint64_t bytes_ = 0;
};

Elf64_Ehdr header_of(const std::string& path, File& file) {
  const Elf64_Ehdr header = file.records<Elf64_Ehdr>(0, 1)[0];
  static const Elf64_Ehdr own = File("/proc/self/exe").records<Elf64_Ehdr>(0, 1)[0];
  if (std::memcmp(header.e_ident, own.e_ident, EI_VERSION + 1) != 0 || header.e_machine != own.e_machine)
    throw Error("the shared library is for another kind of machine", path, kRemedy);
  if (header.e_type != ET_DYN)
    throw Error(header.e_type == ET_EXEC ? "this is a program, not a shared library" : "this is not a shared library", path, kRemedy);
  return header;
}

bool is_program(File& file, const Elf64_Phdr& dynamic) {
  const auto entries = file.records<Elf64_Dyn>(dynamic.p_offset, dynamic.p_filesz / sizeof(Elf64_Dyn));
  return std::ranges::any_of(entries,
                             [](const Elf64_Dyn& entry) { return entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE) != 0; });
}

void check_segments(const std::string& path, File& file, const std::vector<Elf64_Phdr>& segments) {
  for (const auto& segment : segments) {
    if (segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC) file.require(segment.p_offset, segment.p_filesz);
    if (segment.p_type == PT_DYNAMIC && is_program(file, segment)) throw Error("this is a program, not a shared library", path, kRemedy);
  }
}

std::optional<Elf64_Sym> find_symbol(File& file, const std::vector<Elf64_Shdr>& sections, const std::string& symbol) {
  for (const auto& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const auto& strings = sections[section.sh_link];
    const std::string names = file.bytes(strings.sh_offset, strings.sh_size);
    for (const auto& entry : file.records<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym)))
      if (entry.st_shndx != SHN_UNDEF && entry.st_name < names.size() && symbol == names.c_str() + entry.st_name) return entry;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> read_exported_object(const std::string& path, const std::string& symbol) {
  File file(path);
  const Elf64_Ehdr header = header_of(path, file);
  const auto segments = file.records<Elf64_Phdr>(header.e_phoff, header.e_phnum);
  check_segments(path, file, segments);
  const auto found = find_symbol(file, file.records<Elf64_Shdr>(header.e_shoff, header.e_shnum), symbol);
  if (!found) return std::nullopt;
  for (const auto& segment : segments) {
    const bool inside = segment.p_type == PT_LOAD && found->st_value >= segment.p_vaddr &&
                        found->st_value - segment.p_vaddr <= segment.p_filesz &&
                        found->st_size <= segment.p_filesz - (found->st_value - segment.p_vaddr);
    if (inside) return file.bytes(segment.p_offset + (found->st_value - segment.p_vaddr), std::min(found->st_size, kMostObjectBytes));
  }
  return std::nullopt;
}

}  // namespace mptune::profiler
