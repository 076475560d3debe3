#include "profiler/device/gpu_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "profiler/base/error.h"
#include "tests/support/error_of.h"

namespace mptune::testing {
using namespace profiler;
namespace {

using ::testing::HasSubstr;

TEST(CompilerOfGpuCode, SaysWhichLibraryIsMissingOrIsNone) {
  const Error missing = error_of([] { (void)GpuCompiler("/nowhere/libnvrtc.so"); });
  EXPECT_EQ(missing.code(), ExitCode::environment);
  EXPECT_EQ(missing.where(), "/nowhere/libnvrtc.so");
  EXPECT_THAT(missing.remedy(), HasSubstr("nvidia-cuda-nvrtc"));
  const Error other = error_of([] { (void)GpuCompiler("libdl.so.2"); });
  EXPECT_THAT(other.problem(), HasSubstr("nvrtcCreateProgram"));
}

TEST(CompilerOfGpuCode, CompilesOrSaysWhatIsWrongWithTheCode) {
  if (std::string(MPTUNE_NVRTC).empty()) {
    GTEST_SKIP() << "no NVRTC was found when this was configured";
  }
  const GpuCompiler compiler(MPTUNE_NVRTC);
  EXPECT_EQ(compiler.compile("int twice(int x) { return 2 * x; } extern \"C\" __global__ void set(int* to) { *to = twice(3); }", 90)
                .machine_code.substr(0, 4),
            "\177ELF");
  const Error error = error_of([&] { (void)compiler.compile("__global__ void set(int* to) { *to = nothing; }", 90); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_EQ(error.where(), "sm_90");
  EXPECT_THAT(error.problem(), HasSubstr("identifier \"nothing\" is undefined"));
  EXPECT_EQ(error_of([&] { (void)compiler.compile("", 3); }).where(), "sm_3");
}

}  // namespace
}  // namespace mptune::testing
