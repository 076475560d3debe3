#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/support/files.h"

namespace mptune::testing {
namespace {

using ::testing::HasSubstr;

/// The library as the driver would load it.
class Injection : public ::testing::Test {
 protected:
  void SetUp() override {
    if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) {
      GTEST_SKIP() << "this machine has a CUDA driver";
    }
    library_ = dlopen(beside_program("libmptune_injection.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  ~Injection() override { unsetenv("MPTUNE_RECORD_PATH"); }

  template <typename Function>
  Function symbol(const char* name) {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  /// What a first call says: each runs in a process of its own, since a second call does nothing.
  void first_call() {
    const int result = symbol<int (*)()>("InitializeInjection")();
    const int again = symbol<int (*)()>("InitializeInjection")();
    std::exit(result == 1 && again == 1 ? 0 : 1);
  }

  void* library_ = nullptr;
};

TEST_F(Injection, WithoutADriverItPrintsOneLineAndTheProgramContinues) {
  setenv("MPTUNE_RECORD_PATH", "/nowhere/trace", 1);
  EXPECT_EXIT(first_call(), ::testing::ExitedWithCode(0), "^mptune: not recorded: there is no CUDA driver[^\n]*\n$");
}

TEST_F(Injection, WithoutAPathItPrintsHowToStartTheProgram) {
  unsetenv("MPTUNE_RECORD_PATH");
  EXPECT_EXIT(first_call(), ::testing::ExitedWithCode(0), "^mptune: not recorded: no path[^\n]*mptune profile -- COMMAND\n$");
}

TEST_F(Injection, ForwardsNvtxToCupti) {
  for (const char* entry : {"InitializeInjectionNvtx2", "InitializeInjectionNvtx"}) {
    const auto initialize = symbol<int (*)(const void* (*)(std::uint32_t))>(entry);
    ASSERT_NE(initialize, nullptr) << entry;
    EXPECT_EQ(initialize([](std::uint32_t) -> const void* { return nullptr; }), 1) << "CUPTI's answer to " << entry;
  }
  EXPECT_NE(dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD), nullptr);
  EXPECT_NE(symbol<void*>("InitializeInjectionNvtxExtension"), nullptr);
}

TEST_F(Injection, ExportsOnlyItsEntryPoints) {
  EXPECT_NE(symbol<void*>("InitializeInjection"), nullptr);
  EXPECT_EQ(symbol<void*>("sqlite3_open"), nullptr);
  EXPECT_EQ(symbol<void*>("_ZN6mptune13decode_bufferESt4spanISt4byteLm18446744073709551615EERNS_12CuptiRecordsE"), nullptr);
}

}  // namespace
}  // namespace mptune::testing
