#include "profiler/base/json_field.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "profiler/base/error.h"
#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

const JsonSource kSource{"net.json", "the net is damaged: ", "write it again"};

template <class Use>
std::string refusal(const std::string& text, Use use) {
  const nlohmann::json json = parse_json(text, kSource);
  const Error error = testing::error_of([&] { use(JsonField(json, kSource, "net")); });
  EXPECT_EQ(error.where(), "net.json");
  EXPECT_EQ(error.remedy(), "write it again");
  return error.problem();
}

TEST(JsonField, ReadsValues) {
  const nlohmann::json json =
      parse_json(R"({"a":{"b":[1,-2]},"n":null,"t":"x","f":true,"d":0.5,"names":["p","q"],"most":18446744073709551615})", kSource);
  const JsonField root(json, kSource);
  EXPECT_EQ(root.at("a").at("b").integers(), (std::vector<int>{1, -2}));
  EXPECT_EQ(root.at("a").at("b").numbers(), (std::vector<double>{1, -2}));
  EXPECT_EQ(root.at("names").texts(), (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(root.at("a").only().first, "b");
  EXPECT_TRUE(root.at("n").is_null());
  EXPECT_FALSE(root.has("n"));
  EXPECT_FALSE(root.find("absent"));
  EXPECT_EQ(root.find("t")->text(), "x");
  EXPECT_TRUE(root.at("f").truth());
  EXPECT_EQ(root.at("d").number(), 0.5);
  EXPECT_EQ(root.at("most").whole<std::uint64_t>(), UINT64_MAX);
  std::string keys;
  root.each_member([&](const std::string& key, const JsonField&) { keys += key + " "; });
  EXPECT_EQ(keys, "a d f most n names t ");
}

TEST(JsonField, NamesThePathOfWhatIsWrong) {
  EXPECT_EQ(refusal(R"({"a":[{"b":1},{"b":"x"}]})",
                    [](const JsonField& f) { f.at("a").each([](const JsonField& e) { (void)e.at("b").whole(); }); }),
            "the net is damaged: net.a[1].b must be a whole number");
  EXPECT_EQ(refusal("{}", [](const JsonField& f) { (void)f.at("a"); }), "the net is damaged: net.a is missing");
  EXPECT_EQ(refusal("3", [](const JsonField& f) { (void)f.find("a"); }), "the net is damaged: net is not a JSON object");
  EXPECT_EQ(refusal("3", [](const JsonField& f) { (void)f.texts(); }), "the net is damaged: net must be a list");
  EXPECT_EQ(refusal("3", [](const JsonField& f) { (void)f.text(); }), "the net is damaged: net must be text");
  EXPECT_EQ(refusal("3", [](const JsonField& f) { (void)f.truth(); }), "the net is damaged: net must be true or false");
  EXPECT_EQ(refusal("\"3\"", [](const JsonField& f) { (void)f.number(); }), "the net is damaged: net must be a number");
  EXPECT_EQ(refusal("{}", [](const JsonField& f) { (void)f.only(); }), "the net is damaged: net must have one member");
  EXPECT_EQ(refusal("{}", [](const JsonField& f) { f.fail("two names are equal"); }), "the net is damaged: net: two names are equal");
  const std::string long_key(1000, 'k');
  EXPECT_LT(refusal("{}", [&](const JsonField& f) { (void)f.at(long_key); }).size(), 150U);
}

TEST(JsonField, ChecksRanges) {
  const auto as_int = [](const JsonField& f) { (void)f.whole<int>(); };
  const auto as_unsigned = [](const JsonField& f) { (void)f.whole<std::uint64_t>(); };
  const auto as_long = [](const JsonField& f) { (void)f.whole(); };
  const auto up_to_nine = [](const JsonField& f) { (void)f.whole(0, 9); };
  const std::string out = "the net is damaged: net is out of range";
  EXPECT_EQ(refusal("2147483648", as_int), out);
  EXPECT_EQ(refusal("-2147483649", as_int), out);
  EXPECT_EQ(refusal("-1", as_unsigned), out);
  EXPECT_EQ(refusal("18446744073709551615", as_long), out);
  EXPECT_EQ(refusal("18446744073709551616", as_long), "the net is damaged: net must be a whole number");
  EXPECT_EQ(refusal("10", up_to_nine), out);
  EXPECT_EQ(refusal("-1", up_to_nine), out);
  EXPECT_EQ(refusal("1.5", as_int), "the net is damaged: net must be a whole number");
}

std::string parse_refusal(const std::string& text, std::optional<JsonLimits> limits = {}) {
  return testing::error_of([&] { (void)parse_json(text, kSource, limits); }).problem();
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  EXPECT_EQ(parse_refusal("{\"a\": "), "the net is damaged: not JSON, or cut short (byte 7 of 6)");
  EXPECT_EQ(parse_refusal("1e999"), "the net is damaged: a number is out of range");
  EXPECT_EQ(parse_refusal("[[[1]]]", JsonLimits{2, 100}), "the net is damaged: the JSON is too deep or too long");
  EXPECT_EQ(parse_refusal("[1,2,3,4]", JsonLimits{9, 3}), "the net is damaged: the JSON is too deep or too long");
}

}  // namespace
}  // namespace mptune::profiler
