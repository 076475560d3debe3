#include "profiler/model/plugin/plugin.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <torch/types.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "profiler/base/error.h"
#include "profiler/base/library_message.h"
#include "profiler/model/plugin/elf_file.h"
#include "profiler/model/plugin/plugin_header.h"

namespace mptune::profiler {
namespace {

constexpr const char* kRebuild = "build it again with this mptune: add_library(net MODULE net.cc), linked with mptune::mptune";

// LibTorch's wheels come with libstdc++ only.
constexpr const char* kStandardLibraryRemedy =
    "compile and link it with -stdlib=libstdc++: target_compile_options(net PRIVATE -stdlib=libstdc++), target_link_options likewise";
constexpr const char* kStringRemedy = "build it again without a definition of _GLIBCXX_USE_CXX11_ABI, or with 1";

template <std::size_t N>
std::string text_of(const std::array<char, N>& text) {
  return {text.data(), ::strnlen(text.data(), N)};
}

void require_same(const std::string& path, const std::string& what, const std::string& theirs, const std::string& ours,
                  const std::string& remedy = kRebuild) {
  if (theirs != ours) throw Error("the plug-in was built with " + what + " " + theirs + ", this is " + ours, path, remedy);
}

void require_same(const std::string& path, const std::string& what, std::uint32_t theirs, std::uint32_t ours,
                  const std::string& remedy = kRebuild) {
  require_same(path, what, std::to_string(theirs), std::to_string(ours), remedy);
}

void check_header(const std::string& path) {
  const auto bytes = read_exported_object(path, kPluginSymbol);
  const PluginHeader ours;
  PluginHeader theirs;
  if (!bytes || bytes->size() < offsetof(PluginHeader, torch)) {
    throw Error("the shared library is not a plug-in of mptune", path,
                "write MPTUNE_MODEL(factory) of <mptune/nn.h> in one of its sources");
  }
  std::memcpy(static_cast<void*>(&theirs), bytes->data(), std::min(bytes->size(), sizeof theirs));
  if (theirs.magic != ours.magic) throw Error("the plug-in's header is damaged", path, kRebuild);
  require_same(path, "mptune", text_of(theirs.version), text_of(ours.version));
  require_same(path, "plug-in interface", theirs.abi, ours.abi);
  require_same(path, "a plug-in header of size", theirs.bytes, ours.bytes);
  if (bytes->size() < sizeof theirs) throw Error("the plug-in's header is damaged", path, kRebuild);
  require_same(path, "LibTorch", text_of(theirs.torch), text_of(ours.torch));
  require_same(path, "the C++ standard library", text_of(theirs.standard_library), text_of(ours.standard_library), kStandardLibraryRemedy);
  require_same(path, "_GLIBCXX_USE_CXX11_ABI", theirs.string_abi, ours.string_abi, kStringRemedy);
  if (theirs.sizes != ours.sizes) throw Error("the plug-in's types differ in size from those of this mptune", path, kRebuild);
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && name != nullptr ? name.get() : symbol;
}

[[noreturn]] void refuse_loading(const std::string& path, std::string reason) {
  const auto own = reason.find(path + ": ");
  if (own == 0) reason = reason.substr(path.size() + 2);
  const std::string undefined = "undefined symbol: ";
  if (reason.starts_with(undefined)) {
    const auto symbol = reason.substr(undefined.size(), reason.find_first_of(", \n", undefined.size()) - undefined.size());
    throw Error("nothing defines " + demangled(symbol) + ", which the plug-in needs", path,
                "link the plug-in with the library that defines it: target_link_libraries(net PRIVATE ...)");
  }
  throw Error("the plug-in cannot be loaded: " + reason, path, "make the libraries that it needs findable, or build it again");
}

const PluginHeader& open_plugin(const std::string& path) {
  // An absolute path, so that the loader does not search its own folders.
  const std::string absolute = std::filesystem::absolute(path).string();
  void* library = ::dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse_loading(absolute, ::dlerror());
  const auto* header = static_cast<const PluginHeader*>(::dlsym(library, kPluginSymbol));
  if (header == nullptr || header->make == nullptr)
    throw Error("the plug-in has no factory", path, "give MPTUNE_MODEL a function: mptune::Model factory()");
  return *header;
}

}  // namespace

Model load_plugin(const std::string& path, std::uint64_t seed) {
  check_header(path);
  const auto& header = open_plugin(path);
  torch::manual_seed(seed);
  const std::string failed = "the plug-in's factory failed: ";
  const std::string remedy = "correct the function given to MPTUNE_MODEL";
  try {
    return header.make();
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    throw Error(failed + library_message(error.what_without_backtrace()), path, remedy);
  } catch (const std::exception& error) {
    throw Error(failed + library_message(error.what()), path, remedy);
  } catch (...) {
    throw Error(failed + "it threw something other than a std::exception", path, remedy);
  }
}

}  // namespace mptune::profiler
