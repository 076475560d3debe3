#include "profiler/device/gpu_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "profiler/base/error.h"
#include "profiler/device/list/gpu_driver.h"
#include "tests/support/files.h"

namespace mptune::testing {
using namespace profiler;
namespace {

using ::testing::HasSubstr;

TEST(LibraryOfGpus, WithoutDriverEveryDeviceOfAGpuIsAnEnvironmentError) {
  if (profiler::gpu_driver().gpus > 0) {
    GTEST_SKIP() << "there is a GPU";
  }
  for (const char* name : {"cuda:0", "cuda:0/1of2"}) {
    try {
      (void)make_device(parse_device(name));
      FAIL() << name << " without a driver";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      EXPECT_EQ(error.where(), name);
      EXPECT_EQ(error.problem(), profiler::gpu_driver().problem);
      EXPECT_THAT(error.remedy(), HasSubstr("driver"));
      EXPECT_EQ(error.remedy().find('\n'), std::string::npos);
    }
  }
}

TEST(LibraryOfGpus, MissingLibrariesAreNamedInTheRemedy) {
  EXPECT_THAT(profiler::missing_library_remedy("libcudnn.so.9: cannot open shared object file: No such file or directory"),
              HasSubstr("LibTorch needs libcudnn.so.9: install torch"));
  EXPECT_EQ(profiler::missing_library_remedy("/opt/mptune/libmptune_cuda.so: cannot open shared object file"), "install mptune again");
  EXPECT_EQ(profiler::missing_library_remedy("invalid mode for dlopen()"), "install mptune again");
}

// The library exists on every machine. It loads, or the error names the first library that is missing.
TEST(LibraryOfGpus, LoadsOrSaysWhatIsMissing) {
  const auto file = beside_program("libmptune_cuda.so");
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << "built without GPU devices";
  }
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string message = dlerror();
    EXPECT_THAT(message, HasSubstr("cannot open shared object file")) << "symbols do not fit";
    EXPECT_THAT(profiler::missing_library_remedy(message), HasSubstr("LibTorch needs lib"));
    return;
  }
  const auto entry = reinterpret_cast<decltype(&mptune_cuda_entry)>(dlsym(library, "mptune_cuda_entry"));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry("another build"), nullptr);
  const profiler::GpuLibrary* table = entry(profiler::kGpuLibraryBuild);
  ASSERT_NE(table, nullptr);
  EXPECT_NE(table->make_device, nullptr);
  EXPECT_NE(table->make_copier, nullptr);
  EXPECT_NE(table->reaches, nullptr);
  EXPECT_NE(table->launch, nullptr);
  EXPECT_NE(table->connector, nullptr);
  EXPECT_EQ(dlsym(library, "_ZN6mptune10parse_deviceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"), nullptr)
      << "it exports more than its entry";
}

}  // namespace
}  // namespace mptune::testing
