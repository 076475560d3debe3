#include "profiler/trace/values/model_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace mptune::profiler {
namespace {

struct Case {
  std::string text;
  bool is_file;
  std::string name, rest, stem;
};

TEST(ModelText, TellsFilesFromBuiltInModels) {
  const std::vector<Case> cases = {
      {"resnet50", false, "resnet50", "", "resnet50"},
      {"transformer:d=256,layers=8", false, "transformer", "d=256,layers=8", "transformer"},
      {"", false, "", "", "model"},
      {":x", false, "", "x", "model"},
      {"libnet.so", true, "libnet.so", "", "libnet"},
      {"net.pt2", true, "net.pt2", "", "net"},
      {"./net", true, "./net", "", "net"},
      {"/", true, "/", "", "model"},
      {"a/..", true, "a/..", "", "model"},
      {"net.pt:container=a.b", true, "net.pt", "container=a.b", "net"},
      {"net.pt:layers", true, "net.pt", "layers", "net"},
      {"net.pt:", true, "net.pt", "", "net"},
      {"a:b/net.so", true, "a:b/net.so", "", "net"},
      {"dir/net:container=blocks", true, "dir/net", "container=blocks", "net"},
      {"x.pt2:container=c", true, "x.pt2", "container=c", "x"},
  };
  for (const Case& c : cases) {
    const ModelText parsed = parse_model_text(c.text);
    EXPECT_EQ(parsed.is_file, c.is_file) << c.text;
    EXPECT_EQ(parsed.name, c.name) << c.text;
    EXPECT_EQ(parsed.rest, c.rest) << c.text;
    EXPECT_EQ(parsed.stem, c.stem) << c.text;
  }
  EXPECT_TRUE(parse_model_text("net.pt:").has_rest);
  EXPECT_FALSE(parse_model_text("net.pt").has_rest);
}

TEST(ModelText, AFileInTheFolderGoesBeforeABuiltInModel) {
  const testing::TestFolder folder("model-text");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::ofstream("resnet50") << "x";
  EXPECT_TRUE(parse_model_text("resnet50").is_file);
  EXPECT_FALSE(parse_model_text("resnet18").is_file);
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace mptune::profiler
