#include "profiler/model/files/safetensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "profiler/base/error.h"
#include "profiler/model/files/state.h"
#include "profiler/model/layers/model.h"
#include "profiler/model/loading/load_model.h"
#include "tests/support/error_of.h"
#include "tests/support/every_type.h"

namespace mptune::profiler {
namespace {

using testing::error_of;
using testing::every_type;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("mptune-safetensors-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& name, const std::string& bytes) const { std::ofstream(path(name), std::ios::binary) << bytes; }
  // A file of a header and so many bytes of ones.
  void write(const std::string& name, const std::string& header, std::size_t data) const {
    const std::uint64_t size = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &size, 8);
    write(name, bytes + header + std::string(data, '\1'));
  }
  std::string refused(const std::string& header, std::size_t data) const {
    write("bad.safetensors", header, data);
    return refused("bad.safetensors");
  }
  std::string refused(const std::string& name) const {
    const auto error = error_of([&] { (void)read_safetensors(path(name)); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(error.where(), path(name));
    EXPECT_EQ(error.problem().find('\n'), std::string::npos);
    return error.problem();
  }

  std::filesystem::path folder_;
};

TEST_F(Safetensors, RoundTripOfEveryType) {
  const auto before = every_type();
  write_safetensors(path("a.safetensors"), before, {{"head.weight", "word.weight"}});
  EXPECT_TRUE(is_safetensors(path("a.safetensors")));
  std::map<std::string, at::Tensor> after;
  for (const auto& [name, tensor] : read_safetensors(path("a.safetensors"))) after[name] = tensor;
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, tensor] : before) {
    EXPECT_EQ(after[name].scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(after[name], tensor)) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "no temporary file is left";
}

// Written out by hand after the format's description.
TEST_F(Safetensors, Bytes) {
  write_safetensors(path("a.safetensors"), {{"a", at::tensor({1, 2}, at::kByte)}, {"b", at::scalar_tensor(1, at::kFloat)}});
  const std::string header = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                             R"("a":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(padded.size());
  EXPECT_EQ(read("a.safetensors"), expected + padded + std::string("\0\0\x80\x3f\1\2", 6));
}

TEST_F(Safetensors, AlignedData) {
  write_safetensors(path("a.safetensors"),
                    {{"byte", at::zeros({3}, at::kByte)}, {"long", at::zeros({2}, at::kLong)}, {"half", at::zeros({1}, at::kHalf)}});
  const std::string bytes = read("a.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  EXPECT_EQ(header % 8, 0U);
  EXPECT_THAT(bytes, HasSubstr(R"("data_offsets":[0,16])"));
  EXPECT_THAT(bytes, HasSubstr(R"("data_offsets":[16,18])"));
}

TEST_F(Safetensors, StateRoundTripByEitherFormat) {
  const auto model = load_model("resnet18", "3x64x64", 1).model;
  for (const char* name : {"state.safetensors", "state.pt"}) {
    save_state(model, path(name));
    EXPECT_EQ(is_safetensors(path(name)), std::string(name) == "state.safetensors");
    auto other = load_model("resnet18", "3x64x64", 2).model;
    load_state(other, path(name));
    const auto expected = state_of(model), loaded = state_of(other);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(loaded[i].tensor, expected[i].tensor)) << expected[i].name;
  }
  // Told apart by content: the name does not matter to who loads.
  std::filesystem::rename(path("state.safetensors"), path("renamed.bin"));
  auto other = load_model("resnet18", "3x64x64", 2).model;
  load_state(other, path("renamed.bin"));
}

TEST_F(Safetensors, StatesThatDoNotFit) {
  auto model = load_model("mlp", "", 0).model;
  write_safetensors(path("bad.safetensors"), {{"net1.weight", at::zeros({10, 10})}});
  const auto error = error_of([&] { load_state(model, path("bad.safetensors")); });
  EXPECT_EQ(error.problem(), "'net1.bias' is missing");
  write_safetensors(path("double.safetensors"), {{"net1.weight", at::zeros({10, 10}, at::kDouble)}});
  EXPECT_EQ(error_of([&] { load_state(model, path("double.safetensors")); }).problem(),
            "'net1.weight' is 10x10:float64, the model's is 10x10:float32");
}

// What a model has besides its layers: a further name of net2.weight, and a tensor that no layer uses.
LoadedModel with_extras() {
  auto loaded = load_model("mlp", "", 0);
  loaded.extras = {.tied = {{"head.weight", "net2.weight"}}, .unused = {{"unused", at::full({2}, 7)}}};
  return loaded;
}

std::map<std::string, at::Tensor> by_name(const TensorDict& dict) {
  return {dict.begin(), dict.end()};
}

TEST_F(Safetensors, TiedAndUnusedTensorsAreSaved) {
  const auto loaded = with_extras();
  save_state(loaded.model, path("state.pt"), loaded.extras);
  auto dict = by_name(read_torch_file(path("state.pt")));
  EXPECT_EQ(dict.size(), 6U);
  EXPECT_TRUE(at::equal(dict["head.weight"], dict["net2.weight"]));
  EXPECT_EQ(dict["head.weight"].const_data_ptr(), dict["net2.weight"].const_data_ptr()) << "stored once, as torch.save does";
  EXPECT_TRUE(at::equal(dict["unused"], at::full({2}, 7)));

  save_state(loaded.model, path("state.safetensors"), loaded.extras);
  const auto once = by_name(read_safetensors(path("state.safetensors")));
  EXPECT_EQ(once.size(), 5U);
  EXPECT_EQ(once.count("head.weight"), 0U);
  EXPECT_THAT(read("state.safetensors"), HasSubstr(R"("__metadata__":{"format":"pt","head.weight":"net2.weight"})"));
}

TEST_F(Safetensors, TiedTensorsAreLoadedByAnyOfTheirNames) {
  const auto before = with_extras();
  save_state(before.model, path("state.pt"), before.extras);
  const auto all = read_torch_file(path("state.pt"));
  const auto load_without = [&](const std::string& left_out) {
    TensorDict dict;
    for (const auto& [name, tensor] : all)
      if (name != left_out) dict.emplace_back(name, tensor + 1);
    write_torch_file(path("some.pt"), dict);
    auto loaded = with_extras();
    load_state(loaded.model, path("some.pt"), loaded.extras);
    return loaded;
  };
  for (const char* left_out : {"", "head.weight", "net2.weight"}) {
    const auto loaded = load_without(left_out);
    EXPECT_TRUE(at::equal(loaded.model.parameters()[2].tensor, before.model.parameters()[2].tensor + 1)) << left_out;
    EXPECT_TRUE(at::equal(loaded.extras.unused[0].tensor, at::full({2}, 8)));
  }
  EXPECT_EQ(error_of([&] { (void)load_without("unused"); }).problem(), "'unused' is missing");
  auto torn = by_name(all);
  torn["head.weight"] = torn["head.weight"] + 1;
  write_torch_file(path("torn.pt"), {torn.begin(), torn.end()});
  auto torn_apart = with_extras();
  EXPECT_EQ(error_of([&] { load_state(torn_apart.model, path("torn.pt"), torn_apart.extras); }).problem(),
            "'head.weight' and 'net2.weight' are one tensor in the model and two in the file");
}

TEST_F(Safetensors, InvalidHeaders) {
  const auto entry = [](const std::string& about) { return "{\"a\":{" + about + "}}"; };
  EXPECT_THAT(refused("", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refused("[1]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refused("{\"a\":", 4), HasSubstr("not a JSON object"));
  EXPECT_THAT(refused("{\"a\":3}", 0), HasSubstr("'a' has no dtype"));
  EXPECT_THAT(refused(entry(R"("shape":[1],"data_offsets":[0,4])"), 4), HasSubstr("'a' has no dtype"));
  EXPECT_THAT(refused(entry(R"("dtype":"F4","shape":[1],"data_offsets":[0,4])"), 4),
              HasSubstr("element type that mptune does not read: F4"));
  EXPECT_THAT(refused(entry(R"("dtype":"F32","data_offsets":[0,4])"), 4), HasSubstr("'a' has no shape"));
  EXPECT_THAT(refused(entry(R"("dtype":"F32","shape":[1])"), 4), HasSubstr("'a' has no data_offsets"));
  for (const char* shape : {"[-1]", "[1.5]", "[\"1\"]", "[[1]]", "[18446744073709551615]"})
    EXPECT_THAT(refused(entry(std::string(R"("dtype":"F32","data_offsets":[0,4],"shape":)") + shape), 4),
                HasSubstr("of other things than sizes"))
        << shape;
  for (const char* offsets : {"[0]", "[4,0]", "[0,5]", "[0,9223372036854775807]"})
    EXPECT_THAT(refused(entry(std::string(R"("dtype":"F32","shape":[1],"data_offsets":)") + offsets), 4), HasSubstr("outside its 4 bytes"))
        << offsets;
  for (const char* shape :
       {"[2]", "[]  ,\"dtype\":\"F64\"", "[0]", "[4294967296,4294967296]", "[9223372036854775807,2]", "[0,9223372036854775807,9]"})
    EXPECT_THAT(refused(entry(std::string(R"("dtype":"F32","data_offsets":[0,4],"shape":)") + shape), 4),
                HasSubstr("which its shape and type do not"))
        << shape;
  std::string many = "[1";
  for (int i = 0; i < 100; ++i) many += ",1";
  EXPECT_THAT(refused(entry(R"("dtype":"F32","data_offsets":[0,4],"shape":)" + many + "]"), 4),
              HasSubstr("which its shape and type do not"));
}

TEST_F(Safetensors, EveryByteBelongsToOneTensor) {
  const auto two = [](int a, int b, int c, int d) {
    const auto entry = [](int from, int to) {
      return R"({"dtype":"U8","shape":[)" + std::to_string(to - from) + R"(],"data_offsets":[)" + std::to_string(from) + "," +
             std::to_string(to) + "]}";
    };
    return "{\"a\":" + entry(a, b) + ",\"b\":" + entry(c, d) + "}";
  };
  write("good.safetensors", two(2, 6, 0, 2), 6);
  EXPECT_EQ(read_safetensors(path("good.safetensors")).size(), 2U);
  EXPECT_THAT(refused(two(0, 4, 3, 6), 6), HasSubstr("'b' overlaps"));
  EXPECT_THAT(refused(two(0, 6, 0, 6), 6), HasSubstr("overlaps"));
  EXPECT_THAT(refused(two(0, 2, 3, 6), 6), HasSubstr("a gap before 'b'"));
  EXPECT_THAT(refused(two(0, 2, 2, 4), 6), HasSubstr("2 bytes at its end"));
  EXPECT_THAT(refused("{}", 6), HasSubstr("6 bytes at its end"));
  write("empty.safetensors", "{}", 0);
  EXPECT_TRUE(read_safetensors(path("empty.safetensors")).empty());
}

TEST_F(Safetensors, TruthValuesAreZeroOrOne) {
  const std::string header = R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})";
  write("good.safetensors", header, 2);
  std::string bytes = read("good.safetensors");
  EXPECT_TRUE(read_safetensors(path("good.safetensors")).at(0).second.all().item<bool>());
  bytes.back() = '\2';
  write("bad.safetensors", bytes);
  EXPECT_THAT(refused("bad.safetensors"), HasSubstr("neither true nor false"));
}

TEST_F(Safetensors, HugeAndDeepHeaders) {
  write("huge.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{\"a\":1}", 15));
  EXPECT_THAT(refused("huge.safetensors"), HasSubstr("claims 9223372036854775807 bytes of 15"));
  write("most.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
  EXPECT_THAT(refused("most.safetensors"), HasSubstr("claims 18446744073709551615 bytes"));
  std::string deep = "{\"a\":";
  for (int i = 0; i < 200'000; ++i) deep += "[";
  EXPECT_THAT(refused(deep, 0), HasSubstr("not a JSON object"));
  for (int i = 0; i < 200'000; ++i) deep += "]";
  EXPECT_THAT(refused(deep + "}", 0), HasSubstr("'a' has no dtype"));
}

TEST_F(Safetensors, OtherFiles) {
  EXPECT_EQ(refused("absent.safetensors"), "no such file, or it cannot be read");
  std::filesystem::create_directories(path("folder.safetensors"));
  EXPECT_EQ(refused("folder.safetensors"), "no such file, or it cannot be read");
  write("empty.safetensors", "");
  EXPECT_THAT(refused("empty.safetensors"), HasSubstr("cut short"));
  EXPECT_FALSE(is_safetensors(path("empty.safetensors")));
  EXPECT_FALSE(is_safetensors(path("absent.safetensors")));
}

TEST_F(Safetensors, EveryTruncationIsRefused) {
  write_safetensors(path("whole.safetensors"), every_type());
  const std::string whole = read("whole.safetensors");
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    write("cut.safetensors", whole.substr(0, bytes));
    EXPECT_THROW((void)read_safetensors(path("cut.safetensors")), Error) << bytes;
  }
}

// Whatever the damage, the answer is a dict or an Error: no crash, no other exception.
TEST_F(Safetensors, DamagedBytes) {
  write_safetensors(path("whole.safetensors"), every_type());
  const std::string whole = read("whole.safetensors");
  std::mt19937 random(5);
  int refusals = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = whole;
    for (int i = 0; i < 1 + round % 4; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    write("bad.safetensors", bytes);
    try {
      (void)read_safetensors(path("bad.safetensors"));
    } catch (const Error&) {
      ++refusals;
    }
  }
  EXPECT_GT(refusals, 100);
}

TEST_F(Safetensors, UnwritablePlaces) {
  const auto error = error_of([&] { write_safetensors(path("no/such/folder.safetensors"), {}); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_EQ(error.where(), path("no/such/folder.safetensors"));
  write("old.safetensors", "precious");
  const auto complex = error_of([&] { write_safetensors(path("old.safetensors"), {{"z", at::zeros({2}, at::kComplexFloat)}}); });
  EXPECT_THAT(complex.problem(), HasSubstr("'z' is ComplexFloat"));
  EXPECT_EQ(read("old.safetensors"), "precious");
}

}  // namespace
}  // namespace mptune::profiler
