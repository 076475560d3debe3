#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "profiler/base/error.h"
#include "profiler/model/layers/model.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/model/plugin/elf_file.h"
#include "profiler/model/plugin/plugin_header.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace mptune::profiler {
namespace {

using testing::error_of;
using testing::refusal_of;

std::string plugin(const std::string& name) {
  return std::string(MPTUNE_BINARY_DIR) + "/plugins/lib" + name + ".so";
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What the factory of the test's plug-in is to do.
class Mode {
 public:
  explicit Mode(const char* mode) { ::setenv("MPTUNE_TEST_PLUGIN", mode, 1); }
  ~Mode() { ::unsetenv("MPTUNE_TEST_PLUGIN"); }
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;
};

class Plugin : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.path(name), std::ios::binary) << bytes;
    return folder_.path(name);
  }
  // The plug-in with other bytes at this place of its header.
  std::string changed(std::size_t offset, const std::string& instead) {
    auto bytes = bytes_of(plugin("resnet_plugin"));
    std::string begin("mptune plug-in\0\0", 16);
    begin += MPTUNE_VERSION;
    const auto header = bytes.find(begin);
    EXPECT_NE(header, std::string::npos);
    return write("changed.so", bytes.replace(header + offset, instead.size(), instead));
  }
  static std::string refusal(const std::string& path) {
    return refusal_of([&] { (void)load_model(path, "", 0); });
  }

  testing::TestFolder folder_{"plugin"};
};

TEST_F(Plugin, IsTheModelOfItsFactory) {
  const auto loaded = load_model(plugin("resnet_plugin"), "", 3);
  const auto& model = loaded.model;
  const auto builtin = load_model("resnet18", "3x32x32", 0).model;
  EXPECT_EQ(model.name(), "libresnet_plugin");
  EXPECT_EQ(model.input_text(), "3x32x32:float32");
  EXPECT_EQ(model.fingerprint(), builtin.fingerprint());
  EXPECT_EQ(model.sample().target.classes, 1000);
  EXPECT_TRUE(loaded.warnings.empty());
  const auto again = load_model(plugin("resnet_plugin"), "3x48x40", 3).model, other = load_model(plugin("resnet_plugin"), "", 4).model;
  EXPECT_EQ(again.input_text(), "3x48x40:float32");
  EXPECT_TRUE(at::equal(model.parameters()[0].tensor, again.parameters()[0].tensor));
  EXPECT_FALSE(at::equal(model.parameters()[0].tensor, other.parameters()[0].tensor));
}

// The first forward of a layer that writes into its input is run twice: it must not draw on.
TEST_F(Plugin, LayersDrawTheSameMasksFromTheirFirstForwardOn) {
  const Mode mode("noisy");
  const auto model = load_model(plugin("resnet_plugin"), "", 0).model;
  const RunContext context{.seed = 3, .step = 1, .samples = 4};
  const at::NoGradGuard no_gradients;
  const auto drawn = [&] { return run_layer(model.layers()[0], 0, {at::ones({4, 50})}, context)[0]; };
  const at::Tensor first = drawn();
  EXPECT_TRUE(at::equal(first, drawn()));
  EXPECT_GT(first.max().item<double>(), first.min().item<double>());
}

TEST_F(Plugin, LossAndTargetsFollowTheCommandLine) {
  const Mode mode("input only");
  EXPECT_EQ(load_model(plugin("resnet_plugin"), "", 0).model.sample().target.classes, 1000);  // by running it
  const auto regression = load_model(plugin("resnet_plugin"), "", 0, {.loss = "mse", .data = ""}).model;
  EXPECT_EQ(regression.loss().name(), "mse");
  EXPECT_EQ(regression.sample().target.shape, std::vector<std::int64_t>{1000});
  EXPECT_EQ(regression.sample().target.type, at::kFloat);
  const auto buffers = load_model(plugin("resnet_plugin"), "", 0).model.buffers();
  EXPECT_EQ(buffers[2].tensor.item<std::int64_t>(), 0) << "the trial run counts for nothing";
}

TEST_F(Plugin, WithoutASampleOrWithIntegersNeedsTheUsersWord) {
  {
    const Mode mode("no sample");
    const auto model = load_model(plugin("resnet_plugin"), "", 0).model;
    EXPECT_EQ(model.input_text(), "");
    const auto error = error_of([&] { (void)synthetic_batch(model.sample(), 4, 0); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(error.remedy().find("--input"), std::string::npos);
    EXPECT_EQ(load_model(plugin("resnet_plugin"), "3x32x32", 0).model.sample().target.classes, 1000);
  }
  const Mode mode("integers");
  EXPECT_NE(refusal_of([] { (void)load_model(plugin("resnet_plugin"), "16:int64", 0); }).find("integers"), std::string::npos);
}

TEST_F(Plugin, ExceptionsOfTheFactoryAreOneLine) {
  const std::vector<std::pair<const char*, std::string>> cases = {
      {"std", "the plug-in's factory failed: no weights today"},
      {"c10", "the plug-in's factory failed: sizes do not match"},
      {"other", "the plug-in's factory failed: it threw something other than a std::exception"},
      {"mptune", "vocab.txt: the vocabulary is missing"}};
  for (const auto& [mode, words] : cases) {
    const Mode set(mode);
    EXPECT_NE(refusal(plugin("resnet_plugin")).find(words), std::string::npos) << mode << ": " << refusal(plugin("resnet_plugin"));
  }
}

TEST_F(Plugin, OfAnotherBuildIsRefusedBeforeItIsLoaded) {
  const auto four = [](std::uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  const std::vector<std::tuple<std::size_t, std::string, std::string>> cases = {
      {offsetof(PluginHeader, version), std::string("9.9\0", 4), "mptune 9.9"},
      {offsetof(PluginHeader, abi), four(99), "plug-in interface 99"},
      {offsetof(PluginHeader, bytes), four(17), "header of size 17"},
      {offsetof(PluginHeader, torch), std::string("1.13\0", 5), "LibTorch 1.13, this is 2"},
      {offsetof(PluginHeader, string_abi), four(0), "_GLIBCXX_USE_CXX11_ABI 0"},
      {offsetof(PluginHeader, standard_library), std::string("libc++\0", 7), "C++ standard library libc++, this is libstdc++"},
      {offsetof(PluginHeader, sizes), four(8), "differ in size"}};
  for (const auto& [offset, instead, words] : cases)
    EXPECT_NE(refusal(changed(offset, instead)).find(words), std::string::npos) << refusal(changed(offset, instead));
}

TEST_F(Plugin, OfAnotherStandardLibraryIsToldTheOptionsThatHelp) {
  const auto error_with = [&](std::size_t offset, const std::string& instead) {
    const std::string path = changed(offset, instead);
    return error_of([&] { (void)load_model(path, "", 0); });
  };
  const Error library = error_with(offsetof(PluginHeader, standard_library), std::string("libc++\0", 7));
  EXPECT_NE(library.remedy().find("-stdlib=libstdc++"), std::string::npos) << library.what();
  const Error strings = error_with(offsetof(PluginHeader, string_abi), std::string(4, '\0'));
  EXPECT_NE(strings.remedy().find("_GLIBCXX_USE_CXX11_ABI"), std::string::npos) << strings.what();
}

TEST_F(Plugin, OtherFilesAreRefused) {
  EXPECT_NE(refusal(plugin("no_plugin")).find("is not a plug-in of mptune"), std::string::npos);
  EXPECT_NE(refusal(plugin("undefined_plugin")).find("nothing defines model_of_a_library_that_is_not_linked()"), std::string::npos)
      << refusal(plugin("undefined_plugin"));
  EXPECT_NE(refusal("/proc/self/exe").find("a program"), std::string::npos) << refusal("/proc/self/exe");
  EXPECT_NE(refusal(plugin("absent")).find("no such file"), std::string::npos);
  EXPECT_NE(refusal(folder_.path().string()).find("folder"), std::string::npos);
  EXPECT_NE(refusal(write("empty.so", "")).find("empty"), std::string::npos);
  EXPECT_NE(refusal(write("words.so", "no library")).find("neither"), std::string::npos);
  EXPECT_NE(refusal(plugin("resnet_plugin") + ":container=x").find("no options"), std::string::npos);
  EXPECT_NE(refusal("resnet19").find("unknown model"), std::string::npos);
}

// A library that ends too early would take the process with it if it were loaded.
TEST_F(Plugin, CutShortAnywhereOrOfAnotherMachineIsRefused) {
  const auto whole = bytes_of(plugin("resnet_plugin"));
  for (const std::size_t size : {std::size_t{4}, std::size_t{20}, std::size_t{64}, std::size_t{500}, whole.size() / 2, whole.size() - 1})
    EXPECT_NE(refusal(write("short.so", whole.substr(0, size))).find("cut short"), std::string::npos) << size;
  auto other = whole;
  other[4] = 1;  // 32 bits
  EXPECT_NE(refusal(write("other.so", other)).find("another kind of machine"), std::string::npos);
  auto wild = whole;
  for (std::size_t i = 0; i < 8; ++i) wild[40 + i] = '\x7f';  // the place of the section table
  EXPECT_NE(refusal(write("wild.so", wild)).find("cut short"), std::string::npos);
}

TEST(ElfFile, ReadsOnlyExportedObjects) {
  const auto bytes = read_exported_object(plugin("resnet_plugin"), kPluginSymbol);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->size(), sizeof(PluginHeader));
  EXPECT_FALSE(read_exported_object(plugin("resnet_plugin"), "factory"));
  EXPECT_FALSE(read_exported_object(plugin("no_plugin"), kPluginSymbol));
}

}  // namespace
}  // namespace mptune::profiler
