#include "supervise/records.h"

#include <gtest/gtest.h>

#include "base/crc32.h"
#include "shim/record.h"

namespace waybill::supervise {
namespace {

std::string with_crc(const std::string& body) {
  char digits[8];
  crc32_hex(crc32(body.data(), body.size()), digits);
  return body + ",\"crc\":\"" + std::string(digits, 8) + "\"}\n";
}

const std::string kExitBody =
    R"({"protocol":1,"job":"j1","supervisor":"shim","kind":"exited","code":0,"signal":null,)"
    R"("core":false,"step":"","errno":null,"reason":"","ended_by":"itself","started_at_ms":1,)"
    R"("ended_at_ms":2,"duration_ms":1,"cpu_ms":3,"max_rss_bytes":4,"oom":false)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Records, an_exit_record_is_read) {
  const Read<ExitRecord> record = parse_exit(with_crc(kExitBody), "j1");
  ASSERT_TRUE(record.good());
  EXPECT_EQ(record.value.exit.code, 0);
  EXPECT_EQ(record.value.usage.cpu_ms, 3U);
  EXPECT_FALSE(record.value.by_daemon);
}

TEST(Records, I9_every_flipped_byte_makes_it_torn) {
  const std::string line = with_crc(kExitBody);
  for (std::size_t i = 0; i < line.size(); ++i) {
    std::string bad = line;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_EQ(parse_exit(bad, "j1").state, RecordState::torn) << i;
    EXPECT_EQ(parse_exit(line.substr(0, i), "j1").state, RecordState::torn) << i;
  }
  EXPECT_EQ(parse_exit(line + "\n", "j1").state, RecordState::torn);
  EXPECT_EQ(parse_exit(std::string(4096, '\0'), "j1").state, RecordState::torn);
}

TEST(Records, I9_right_checksum_with_wrong_content_is_torn) {
  const std::pair<const char*, const char*> changes[] = {
      {"\"protocol\":1", "\"protocol\":2"},
      {"\"j1\"", "\"j2\""},
      {"\"code\":0", "\"code\":null"},
      {"\"code\":0", "\"code\":\"0\""},
      {"\"code\":0", "\"code\":0.5"},
      {"\"code\":0", "\"code\":99999999999"},
      {"\"code\":0,", ""},
      {"\"kind\":\"exited\"", "\"kind\":\"signaled\""},
      {"\"kind\":\"exited\"", "\"kind\":\"x\""},
      {"\"signal\":null", "\"signal\":9"},
      {"\"ended_by\":\"itself\"", "\"ended_by\":\"me\""},
      {"\"supervisor\":\"shim\"", "\"supervisor\":\"\""},
      {"\"cpu_ms\":3", "\"cpu_ms\":-3"},
      {"\"oom\":false", "\"oom\":0"},
  };
  for (const auto& [from, to] : changes) {
    EXPECT_EQ(parse_exit(with_crc(replaced(kExitBody, from, to)), "j1").state, RecordState::torn)
        << from << " -> " << to;
  }
}

TEST(Records, gaps_must_be_in_order_and_inside) {
  const auto final_with = [](const std::string& gaps) {
    return with_crc(
        R"({"protocol":1,"job":"j1","supervisor":"shim","proof":"subreaper","output":{"bytes":100,)"
        R"("kept_bytes":50,"gaps":)" +
        gaps +
        R"(,"digest":"","digest_reason":"","incomplete":""},"policy":"kill","leftovers":[],)"
        R"("leftovers_total":0)");
  };
  EXPECT_TRUE(parse_final(final_with("[]"), "j1").good());
  const Read<FinalRecord> record = parse_final(final_with("[[10,20],[30,70]]"), "j1");
  ASSERT_TRUE(record.good());
  EXPECT_EQ(record.value.output.gaps[1], (core::Gap{30, 70}));
  for (const char* bad : {"[[20,10]]", "[[10,20],[15,30]]", "[[10,101]]", "[[-1,5]]", "[[1]]",
                          "[1]", "{}", "[[1,2,3]]"}) {
    EXPECT_FALSE(parse_final(final_with(bad), "j1").good()) << bad;
  }
}

TEST(Records, what_the_writer_escapes_the_reader_understands) {
  shim::JsonLine line;
  line.text("job", "j1");
  line.boolean("stuck", true);
  line.open("survivors", '[');
  line.open({}, '{');
  line.integer("pid", 7);
  line.text("comm", std::string("a\"b\\c\n\x01\x7f", 8));
  line.text("cmdline", "x\xff\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\x80y\xc0\xaf\xe2\x82");
  line.text("state", "D");
  line.boolean("holds_output", false);
  line.close('}');
  line.close(']');
  const Read<SurvivorRecord> record = parse_survivors(line.finish(), "j1");
  ASSERT_TRUE(record.good());
  EXPECT_EQ(record.value.survivors[0].comm, std::string("a\"b\\c\n\x01\x7f", 8));
  EXPECT_EQ(record.value.survivors[0].cmdline, "x?\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80???y????");
}

TEST(Records, a_list_that_is_too_long_is_cut_and_still_checks) {
  shim::JsonLine line;
  line.text("job", "j1");
  for (int i = 0; i < 3000; ++i) line.text("k", "0123456789");
  EXPECT_TRUE(line.overflow());
  EXPECT_LE(line.finish().size(), shim::kRecordBytesMax);
}

}  // namespace
}  // namespace waybill::supervise
