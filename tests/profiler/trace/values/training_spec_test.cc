#include "profiler/trace/values/training_spec.h"

#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace mptune {
namespace {

const TrainingSpec kFull{.model = "transformer:d=64,layers=4",
                         .input = "8x16",
                         .batch = "32",
                         .devices = "cpu:0,cpu:1",
                         .memory = "1GiB",
                         .link = "1GB/s,10us",
                         .reduce = "all-reduce",
                         .loss = "mse",
                         .optimizer = "adam",
                         .learning_rate = "0.1",
                         .precision = "bf16",
                         .seed = "3",
                         .data = "/data/a b.pt"};

TrainingSpec of_model(const std::string& model) {
  TrainingSpec spec;
  spec.model = model;
  return spec;
}

TEST(TrainingCommand, SaysEverythingAgain) {
  EXPECT_EQ(training_command("tune", kFull).text(),
            "mptune tune transformer:d=64,layers=4 --input 8x16 --batch 32 --devices cpu:0,cpu:1 --memory 1GiB --link 1GB/s,10us "
            "--reduce all-reduce --loss mse --optimizer adam --lr 0.1 --precision bf16 --seed 3 --data '/data/a b.pt'");
}

TEST(TrainingCommand, APlanFileHoldsBatchAndDevices) {
  const std::string command = training_command("run", kFull, "/plans/a.plan.json").text();
  EXPECT_THAT(command, ::testing::EndsWith("--data '/data/a b.pt' --plan /plans/a.plan.json"));
  EXPECT_THAT(command, ::testing::Not(::testing::HasSubstr("--batch")));
  EXPECT_THAT(command, ::testing::Not(::testing::HasSubstr("--devices")));
}

TEST(TrainingCommand, CheckTakesNoCapsAndNoLinks) {
  EXPECT_EQ(training_command("check", kFull).text(),
            "mptune check transformer:d=64,layers=4 --input 8x16 --batch 32 --devices cpu:0,cpu:1 --loss mse --optimizer adam --lr 0.1 "
            "--precision bf16 --seed 3 "
            "--data '/data/a b.pt'");
}

TEST(TrainingSpec, FoldersStayPrivateAndFilesAreFoundAgain) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / ("training_spec_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "models");
  for (const char* name : {"models/net.pt", "models/batch", "models/plain"}) std::ofstream(folder / name) << "x";
  TrainingSpec spec = of_model((folder / "models/net.pt:container=a.b").string());
  spec.data = (folder / "models/batch").string();
  const TrainingSpec stored = without_folders(spec);
  EXPECT_EQ(stored.model, "net.pt:container=a.b");
  EXPECT_EQ(stored.data, "./batch");
  EXPECT_THAT(bare_files(stored), ::testing::ElementsAre("net.pt", "./batch"));
  EXPECT_EQ(with_files_found(stored, {folder.string() + "/none", folder.string() + "/models"}), spec);
  EXPECT_EQ(with_files_found(stored, {folder.string() + "/none"}), stored);
  EXPECT_TRUE(bare_files(spec).empty());
  spec.model = (folder / "models/plain").string();  // ends like no model
  EXPECT_EQ(with_files_found(without_folders(spec), {folder.string() + "/models"}), spec);
  std::filesystem::remove_all(folder);
}

TEST(TrainingSpec, FilesAreNamedFromAFolderThatIsHandedOnWithThem) {
  const std::string home = "/users/anna/runs";
  for (const auto& [path, stored] : std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                                                     {"/users/anna/runs/net.pt", "net.pt"},
                                                                                     {"/users/anna/runs/nets/plain", "nets/plain"},
                                                                                     {"/users/anna/runs/plain", "./plain"},
                                                                                     {"/users/anna/nets/net.pt", "../nets/net.pt"},
                                                                                     {"/users/bert/net.pt", "net.pt"},
                                                                                     {"/data/net.pt", "net.pt"}}) {
    EXPECT_EQ(path_from_folder(path, home), stored);
    if (stored.find("s/") != std::string::npos) {
      EXPECT_EQ(path_in_folder(stored, home), path);
    }
  }
  EXPECT_EQ(path_in_folder("/data/net.pt", home), "/data/net.pt");
  EXPECT_EQ(path_in_folder("net.pt", home), "net.pt") << "is not there";
  EXPECT_EQ(model_from_folder("/users/anna/net.pt:container=a.b", home), "../net.pt:container=a.b");
  EXPECT_EQ(model_in_folder("../net.pt:container=a.b", home), "/users/anna/net.pt:container=a.b");
  EXPECT_EQ(model_in_folder("transformer:d=256", home), "transformer:d=256");
  EXPECT_EQ(with_files_in_folder(with_files_from_folder(kFull, home), home).model, kFull.model);
}

TEST(TrainingSpec, BuiltInModelsAreNoFiles) {
  EXPECT_EQ(with_absolute_files(kFull), kFull);
  EXPECT_EQ(without_folders(kFull).model, kFull.model);
  EXPECT_EQ(with_absolute_files(of_model("./net.so")).model, std::filesystem::current_path().string() + "/net.so");
}

TEST(TrainingSpec, AModelOutOfAFileIsNoOption) {
  EXPECT_EQ(with_files_found(of_model("--force"), {}).model, "");
}

}  // namespace
}  // namespace mptune
