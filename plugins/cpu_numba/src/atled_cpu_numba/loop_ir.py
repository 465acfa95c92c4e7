"""LLVM IR of the kernel that runs loops: a row of a program that runs rows of its own, step by step.

It is called as any kernel, with the address of its block (`LoopWord`, then the tables). As it may take long, it comes
back early to give the interpreter its turn, or where workers are yet to be started: its result is then one of those
that `is_special` knows, all below any that other kernels return, and a call with part = 1 goes on with it.
"""

from __future__ import annotations

from atled.plugin import FixupWord, LoopRowWord, LoopWord, MoveWord, PatchWord

# What a loop returns beside 0 is below SPECIAL: PAUSED, PAUSED | UNSTARTED_BIT or PAUSED | FAILED_BIT | step << 16 |
# code.
SPECIAL = -(1 << 62)
PAUSED = -(1 << 63)
UNSTARTED_BIT = 1 << 61
FAILED_BIT = 1 << 60
INTERVALS_SHIFT = 6  # 1 / 64 of a turn goes by between two looks at the time
MOST_INTERVAL = 64  # steps
STEPS_SHOWN = (1 << 23) - 1  # greater numbers of steps are told as this one
STEP_BITS = STEPS_SHOWN << 16
UNSTARTED = PAUSED | UNSTARTED_BIT
FAILURE = PAUSED | FAILED_BIT

_TABLES = {"LOOP": LoopWord, "LOOPROW": LoopRowWord, "FIXUP": FixupWord, "MOVE": MoveWord, "PATCH": PatchWord}
LOOP_WORDS = {f"{name}_{word.name}": int(word) for name, words in _TABLES.items() for word in words}
LOOP_WORDS.update({f"{name}_WORDS": len(words) for name, words in _TABLES.items()})


def _header(*names: str) -> str:
    """Loads of words of the block, each into the variable of its name."""
    lines = []
    for name in names:
        variable = name.lower().replace("_", ".")
        lines.append(f"  %{variable}.p = getelementptr i64, ptr %words, i64 {{LOOP_{name}}}")
        lines.append(f"  %{variable} = load i64, ptr %{variable}.p")
    return "\n".join(lines)


def _field(record: str, table: str, name: str, prefix: str = "") -> str:
    """Load of a word of a table's entry, into the variable of its name."""
    variable = prefix + name.lower().replace("_", ".")
    return (
        f"  %{variable}.p = getelementptr i64, ptr %{record}, i64 {{{table}_{name}}}\n"
        f"  %{variable} = load i64, ptr %{variable}.p"
    )


def _fields(record: str, table: str, *names: str) -> str:
    return "\n".join(_field(record, table, name) for name in names)


def _fill_words(name: str, entry: str, entries: str) -> str:
    """A function that goes through a table of words: target = source + bytes.

    entry, entries: the table's name in `_TABLES` and in `LoopWord`.
    """
    return f"""\
define internal void @{name}(ptr %words) {{
entry:
{_header(entries, f"{entry}_COUNT")}
  %any = icmp sgt i64 %{entry.lower()}.count, 0
  br i1 %any, label %each, label %end
each:
  %i = phi i64 [ 0, %entry ], [ %next, %each ]
  %offset = mul i64 %i, {{{entry}_WORDS}}
  %place = add i64 %{entries.lower()}, %offset
  %entry.at = getelementptr i64, ptr %words, i64 %place
{_fields("entry.at", entry, "TARGET", "SOURCE", "BYTES")}
  %source.word = getelementptr i64, ptr %words, i64 %source
  %target.word = getelementptr i64, ptr %words, i64 %target
  %value = load i64, ptr %source.word
  %moved = add i64 %value, %bytes
  store i64 %moved, ptr %target.word
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %{entry.lower()}.count
  br i1 %more, label %each, label %end
end:
  ret void
}}"""


LOOP_IR = f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Whether a result is one that only loops give.
define internal i1 @is_special(i64 %result) alwaysinline {{
  %special = icmp slt i64 %result, {{SPECIAL}}
  ret i1 %special
}}

; FAILED with a code that is not greater than 16 bits.
define internal i64 @failure_of(i64 %step, i64 %code) alwaysinline {{
  %few = icmp ult i64 %step, {{STEPS_SHOWN}}
  %shown = select i1 %few, i64 %step, i64 {{STEPS_SHOWN}}
  %high = shl i64 %shown, 16
  %low = or i64 %high, %code
  %failure = or i64 %low, {{FAILURE}}
  ret i64 %failure
}}

; Put all that does not change from step to step into the words that want it.
{_fill_words("loop_fix", "FIXUP", "FIXUPS")}

; Have a random state be at another draw.
define internal void @loop_draw(i64 %address, i64 %more) alwaysinline {{
  %state = inttoptr i64 %address to ptr
  %drawn.at = getelementptr i64, ptr %state, i64 1
  %drawn = load i64, ptr %drawn.at
  %drawn.next = add i64 %drawn, %more
  store i64 %drawn.next, ptr %drawn.at
  ret void
}}

; Where each array that moves begins. Of two memories that alternate the last step of `count` is to write the first.
define internal void @loop_begin(ptr %words, i64 %count) {{
entry:
{_header("MOVES", "MOVE_COUNT")}
  %last = sub i64 %count, 1
  %some = icmp sgt i64 %count, 0
  %odd = and i64 %count, 1
  %is.even = icmp eq i64 %odd, 0
  %any = icmp sgt i64 %move.count, 0
  br i1 %any, label %each, label %end
each:
  %i = phi i64 [ 0, %entry ], [ %next, %stored ]
  %offset = mul i64 %i, {{MOVE_WORDS}}
  %place = add i64 %moves, %offset
  %entry.at = getelementptr i64, ptr %words, i64 %place
{_fields("entry.at", "MOVE", "BASE", "OTHER", "STRIDE", "BACKWARDS", "DRAWS", "ADDRESS", "PACE", "MASK")}
  %alternates = icmp ne i64 %other, 0
  %difference = xor i64 %base, %other
  %new.mask = select i1 %alternates, i64 %difference, i64 0
  %turned = and i1 %alternates, %is.even
  %begin = select i1 %turned, i64 %other, i64 %base
  %back = icmp ne i64 %backwards, 0
  %far = mul i64 %last, %stride
  %skipped = select i1 %back, i64 %far, i64 0
  %from = add i64 %begin, %skipped
  %negative = sub i64 0, %stride
  %new.pace = select i1 %back, i64 %negative, i64 %stride
  store i64 %new.mask, ptr %mask.p
  store i64 %new.pace, ptr %pace.p
  store i64 %from, ptr %address.p
  %random = icmp ne i64 %draws, 0
  %drawing = and i1 %random, %some
  br i1 %drawing, label %draw, label %stored
draw:
  call void @loop_draw(i64 %from, i64 1)
  br label %stored
stored:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %move.count
  br i1 %more, label %each, label %end
end:
  ret void
}}

; One step on. An array that follows another one is where that was in the step before.
define internal void @loop_move(ptr %words) {{
entry:
{_header("MOVES", "MOVE_COUNT")}
  %any = icmp sgt i64 %move.count, 0
  br i1 %any, label %each, label %end
each:
  %i = phi i64 [ 0, %entry ], [ %next, %stored ]
  %offset = mul i64 %i, {{MOVE_WORDS}}
  %place = add i64 %moves, %offset
  %entry.at = getelementptr i64, ptr %words, i64 %place
{_fields("entry.at", "MOVE", "ADDRESS", "PACE", "MASK", "FOLLOWS", "DRAWS")}
  %follower = icmp ne i64 %follows, 0
  br i1 %follower, label %follow, label %ahead.of
follow:
  %leader.at = getelementptr i64, ptr %words, i64 %follows
  %leader = load i64, ptr %leader.at
  br label %place.known
ahead.of:
  %ahead = add i64 %address, %pace
  %turned = xor i64 %ahead, %mask
  br label %place.known
place.known:
  %new = phi i64 [ %leader, %follow ], [ %turned, %ahead.of ]
  store i64 %new, ptr %address.p
  %random = icmp ne i64 %draws, 0
  br i1 %random, label %draw, label %stored
draw:
  call void @loop_draw(i64 %new, i64 1)
  br label %stored
stored:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %move.count
  br i1 %more, label %each, label %end
end:
  ret void
}}

; Tell the rows where everything is now.
{_fill_words("loop_patch", "PATCH", "PATCHES")}

; Behind the last of `steps` steps: the last states where they are wanted, zeros in the rows that were not computed.
define internal void @loop_end(ptr %words, i64 %steps) {{
entry:
{_header("MOVES", "MOVE_COUNT", "STEPS_AT", "LIMIT")}
  %told = icmp ne i64 %steps.at, 0
  br i1 %told, label %tell, label %begin
tell:
  %steps.place = inttoptr i64 %steps.at to ptr
  store i64 %steps, ptr %steps.place
  br label %begin
begin:
  %none = icmp eq i64 %steps, 0
  %any = icmp sgt i64 %move.count, 0
  br i1 %any, label %each, label %end
each:
  %i = phi i64 [ 0, %begin ], [ %next, %done ]
  %offset = mul i64 %i, {{MOVE_WORDS}}
  %place = add i64 %moves, %offset
  %entry.at = getelementptr i64, ptr %words, i64 %place
{_fields("entry.at", "MOVE", "BASE", "ADDRESS", "STRIDE", "FINAL", "FIRST", "BYTES", "FILLS", "BACKWARDS")}
  %wanted = icmp ne i64 %final, 0
  br i1 %wanted, label %last, label %fill
last:
  %source = select i1 %none, i64 %first, i64 %address
  %there = icmp eq i64 %source, %final
  br i1 %there, label %fill, label %copy
copy:
  %from = inttoptr i64 %source to ptr
  %to = inttoptr i64 %final to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  br label %fill
fill:
  %filled = icmp ne i64 %fills, 0
  br i1 %filled, label %zero, label %done
zero:                                  ; rows before those of the steps, and behind them
  %back = icmp ne i64 %backwards, 0
  %missed = sub i64 %limit, %steps
  %before = select i1 %back, i64 %missed, i64 0
  %written = add i64 %before, %steps
  %behind = sub i64 %fills, %written
  %before.bytes = mul i64 %before, %stride
  %written.bytes = mul i64 %written, %stride
  %behind.bytes = mul i64 %behind, %stride
  %rest = add i64 %base, %written.bytes
  %base.at = inttoptr i64 %base to ptr
  %rest.at = inttoptr i64 %rest to ptr
  call void @llvm.memset.p0.i64(ptr %base.at, i8 0, i64 %before.bytes, i1 false)
  call void @llvm.memset.p0.i64(ptr %rest.at, i8 0, i64 %behind.bytes, i1 false)
  br label %done
done:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %move.count
  br i1 %more, label %each, label %end
end:
  ret void
}}

; Random states as they were before `steps` steps, the one that failed included.
define internal void @loop_go_back(ptr %words, i64 %steps) noinline {{
entry:
{_header("MOVES", "MOVE_COUNT")}
  %any = icmp sgt i64 %move.count, 0
  br i1 %any, label %each, label %end
each:
  %i = phi i64 [ 0, %entry ], [ %next, %done ]
  %offset = mul i64 %i, {{MOVE_WORDS}}
  %place = add i64 %moves, %offset
  %entry.at = getelementptr i64, ptr %words, i64 %place
{_fields("entry.at", "MOVE", "ADDRESS", "DRAWS")}
  %random = icmp ne i64 %draws, 0
  br i1 %random, label %undraw, label %done
undraw:
  %less = sub i64 0, %steps
  call void @loop_draw(i64 %address, i64 %less)
  br label %done
done:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %move.count
  br i1 %more, label %each, label %end
end:
  ret void
}}

; Whether a number in memory is not 0, by those of its bits that count.
define internal i1 @is_true(ptr %number, i64 %bytes, i64 %bits) {{
  switch i64 %bytes, label %long [ i64 1, label %byte
                                   i64 2, label %short
                                   i64 4, label %word ]
byte:
  %b = load i8, ptr %number, align 1
  %b.wide = zext i8 %b to i64
  br label %known
short:
  %s = load i16, ptr %number, align 1
  %s.wide = zext i16 %s to i64
  br label %known
word:
  %w = load i32, ptr %number, align 1
  %w.wide = zext i32 %w to i64
  br label %known
long:
  %l = load i64, ptr %number, align 1
  br label %known
known:
  %value = phi i64 [ %b.wide, %byte ], [ %s.wide, %short ], [ %w.wide, %word ], [ %l, %long ]
  %counting = and i64 %value, %bits
  %result = icmp ne i64 %counting, 0
  ret i1 %result
}}

define internal i64 @loop(i64 %block, i64 %part, i64 %parts) {{
entry:
  %words = inttoptr i64 %block to ptr
  %own.at = getelementptr i64, ptr %words, i64 {{LOOP_OWN}}
  %own = load i64, ptr %own.at
  %root = inttoptr i64 %own to ptr
  %pool = load atomic i64, ptr %root acquire, align 8
  %pool.base = inttoptr i64 %pool to ptr
  %turn.at = getelementptr i8, ptr %pool.base, i64 {{TURN}}
  %turn = load i64, ptr %turn.at
{_header("SELF", "STEP", "ROW", "WITHIN", "LIMIT", "FROM", "TO")}
{_header("COUNT", "COUNT_AT", "CHOICE_AT", "SPLIT", "ROWS", "ROW_COUNT")}
{_header("TRUTH_BYTES", "TRUTH_BITS")}
  %condition.word = getelementptr i64, ptr %words, i64 {{LOOP_END_AT}}
  %begin = call i64 @ticks(i64 0)
  %resumed = icmp ne i64 %part, 0
  br i1 %resumed, label %step.begin, label %fix
fix:
  store i64 %block, ptr %self.p
  call void @loop_fix(ptr %words)
  %counted.at.word = load i64, ptr %count.at.p
  %is.counted = icmp ne i64 %counted.at.word, 0
  br i1 %is.counted, label %read.count, label %check
read.count:
  %counted.at = inttoptr i64 %counted.at.word to ptr
  %counted = load i64, ptr %counted.at
  br label %check
check:
  %limit.new = phi i64 [ %count, %fix ], [ %counted, %read.count ]
  %negative = icmp slt i64 %limit.new, 0
  br i1 %negative, label %refuse.negative, label %check.most
check.most:
  %many = icmp sgt i64 %limit.new, %count
  br i1 %many, label %refuse.many, label %accept
refuse.negative:
  %failure.negative = call i64 @failure_of(i64 0, i64 1)
  ret i64 %failure.negative
refuse.many:
  %failure.many = call i64 @failure_of(i64 0, i64 2)
  ret i64 %failure.many
accept:
  store i64 %limit.new, ptr %limit.p
  call void @loop_begin(ptr %words, i64 %limit.new)
  call void @loop_patch(ptr %words)
  %empty = icmp eq i64 %limit.new, 0
  br i1 %empty, label %end, label %choose
choose:
  %choice.word = load i64, ptr %choice.at.p
  %choosing = icmp ne i64 %choice.word, 0
  br i1 %choosing, label %choice, label %chosen
choice:
  %choice.place = inttoptr i64 %choice.word to ptr
  %truth = call i1 @is_true(ptr %choice.place, i64 %truth.bytes, i64 %truth.bits)
  %from.choice = select i1 %truth, i64 0, i64 %split
  %to.choice = select i1 %truth, i64 %split, i64 %row.count
  br label %chosen
chosen:
  %from.new = phi i64 [ 0, %choose ], [ %from.choice, %choice ]
  %to.new = phi i64 [ %row.count, %choose ], [ %to.choice, %choice ]
  store i64 %from.new, ptr %from.p
  store i64 %to.new, ptr %to.p
  br label %step.begin
step.begin:                            ; of step %k from row %begin.row on; that goes on if %going
  %k = phi i64 [ 0, %chosen ], [ %step, %entry ], [ %k.next, %moved ]
  %limit.k = phi i64 [ %limit.new, %chosen ], [ %limit, %entry ], [ %limit.k, %moved ]
  %from.k = phi i64 [ %from.new, %chosen ], [ %from, %entry ], [ %from.k, %moved ]
  %to.k = phi i64 [ %to.new, %chosen ], [ %to, %entry ], [ %to.k, %moved ]
  %begin.row = phi i64 [ %from.new, %chosen ], [ %row, %entry ], [ %from.k, %moved ]
  %going = phi i64 [ 0, %chosen ], [ %within, %entry ], [ 0, %moved ]
  %last.look = phi i64 [ %begin, %chosen ], [ %begin, %entry ], [ %last.look.next, %moved ]
  %interval = phi i64 [ 1, %chosen ], [ 1, %entry ], [ %interval.next, %moved ]
  %until = phi i64 [ 1, %chosen ], [ 1, %entry ], [ %until.next, %moved ]
  %any = icmp slt i64 %begin.row, %to.k
  br i1 %any, label %row.begin, label %step.end
row.begin:
  %i = phi i64 [ %begin.row, %step.begin ], [ %i.next, %passed ]
  %share.number = phi i64 [ %going, %step.begin ], [ 0, %passed ]
  %row.offset = mul i64 %i, {{LOOPROW_WORDS}}
  %row.place = add i64 %rows, %row.offset
  %row.entry = getelementptr i64, ptr %words, i64 %row.place
{_field("row.entry", "LOOPROW", "KERNEL")}
{_field("row.entry", "LOOPROW", "BLOCK", "row.")}
{_field("row.entry", "LOOPROW", "PARTS", "row.")}
  %shared = icmp sgt i64 %row.parts, 1
  br i1 %shared, label %together, label %alone
alone:
  %function = inttoptr i64 %kernel to ptr
  %result = call i64 %function(i64 %row.block, i64 %share.number, i64 1)
  %failed = icmp ne i64 %result, 0
  br i1 %failed, label %unusual.alone, label %passed
together:
  %code.together = call i64 @share(i64 %pool, i64 %kernel, i64 %row.block, i64 %row.parts)
  %fine = icmp eq i64 %code.together, 0
  br i1 %fine, label %passed, label %unusual.together
passed:
  %i.next = add i64 %i, 1
  %more.rows = icmp slt i64 %i.next, %to.k
  br i1 %more.rows, label %row.begin, label %step.end
step.end:
  %k.next = add i64 %k, 1
  %condition.at = load i64, ptr %condition.word
  %conditional = icmp ne i64 %condition.at, 0
  br i1 %conditional, label %condition, label %counted.step
condition:
  %condition.place = inttoptr i64 %condition.at to ptr
  %true = call i1 @is_true(ptr %condition.place, i64 %truth.bytes, i64 %truth.bits)
  br i1 %true, label %end, label %counted.step
counted.step:
  %more.steps = icmp slt i64 %k.next, %limit.k
  br i1 %more.steps, label %move, label %end
move:
  call void @loop_move(ptr %words)
  call void @loop_patch(ptr %words)
  %until.less = sub i64 %until, 1
  %looks = icmp eq i64 %until.less, 0
  br i1 %looks, label %look, label %moved
look:                                  ; a look at the time takes longer than a short step: not at each of those
  %now = call i64 @ticks(i64 0)
  %spent = sub i64 %now, %begin
  %due = icmp ugt i64 %spent, %turn
  br i1 %due, label %pause, label %pace
pace:
  %lately = sub i64 %now, %last.look
  %lately.many = shl i64 %lately, {{INTERVALS_SHIFT}}
  %brief = icmp ult i64 %lately.many, %turn
  %twice = shl i64 %interval, 1
  %below = icmp ult i64 %interval, {{MOST_INTERVAL}}
  %longer = select i1 %below, i64 %twice, i64 %interval
  %interval.new = select i1 %brief, i64 %longer, i64 1
  br label %moved
moved:
  %last.look.next = phi i64 [ %last.look, %move ], [ %now, %pace ]
  %interval.next = phi i64 [ %interval, %move ], [ %interval.new, %pace ]
  %until.next = phi i64 [ %until.less, %move ], [ %interval.new, %pace ]
  br label %step.begin
end:
  %steps = phi i64 [ 0, %accept ], [ %k.next, %condition ], [ %k.next, %counted.step ]
  call void @loop_end(ptr %words, i64 %steps)
  ret i64 0
pause:
  br label %early
unusual.alone:
  %special = call i1 @is_special(i64 %result)
  br i1 %special, label %special.alone, label %failure.alone
failure.alone:
  %code.alone = call i64 @code_of(i64 %result)
  br label %failure
special.alone:
  %failed.bit = and i64 %result, {{FAILED_BIT}}
  %failed.within = icmp ne i64 %failed.bit, 0
  %code.within = and i64 %result, 65535
  br i1 %failed.within, label %failure, label %early
unusual.together:
  %unstarted = icmp slt i64 %code.together, 0
  br i1 %unstarted, label %early, label %failure
early:
  %early.step = phi i64 [ %k.next, %pause ], [ %k, %special.alone ], [ %k, %unusual.together ]
  %early.row = phi i64 [ %from.k, %pause ], [ %i, %special.alone ], [ %i, %unusual.together ]
  %early.within = phi i64 [ 0, %pause ], [ 1, %special.alone ], [ 0, %unusual.together ]
  %early.result = phi i64 [ {{PAUSED}}, %pause ], [ %result, %special.alone ], [ {{UNSTARTED}}, %unusual.together ]
  store i64 %early.step, ptr %step.p
  store i64 %early.row, ptr %row.p
  store i64 %early.within, ptr %within.p
  ret i64 %early.result
failure:
  %code = phi i64 [ %code.alone, %failure.alone ], [ %code.within, %special.alone ],
                  [ %code.together, %unusual.together ]
{_fields("row.entry", "LOOPROW", "FIRST_CODE", "CODE_COUNT")}
  %known = icmp ult i64 %code, %code.count
  %told = select i1 %known, i64 %code, i64 %code.count
  %unique = add i64 %first.code, %told
  %begun = add i64 %k, 1
  call void @loop_go_back(ptr %words, i64 %begun)
  %failure.result = call i64 @failure_of(i64 %k, i64 %unique)
  ret i64 %failure.result
}}
"""
