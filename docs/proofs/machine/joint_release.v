(* The joint release of value, square and weight of a clipped column (docs/proofs/ratio.md, steps 1,
   2 and 6), for every number of steps K and every cap C: no width is left out.

   A person of weight u/C (u whole, 0 <= u <= C) and clipped value i/K has y = u i over C K. The
   answers are sums of y, y^2 and u; costs are written over the least common denominator. *)

From Coq Require Import ZArith Lia Psatz.
Local Open Scope Z_scope.

(* --- means over persons: weight 1 with a value in [-K, K], 0 and no value without ------------- *)
Definition person (K w i : Z) : Prop := (w = 1 /\ -K <= i <= K) \/ (w = 0 /\ i = 0).

(* Scales 2, 4 and 4 over epsilon: |i-j|/(2K) + |i^2-j^2|/(4K^2) + |w-v|/4 <= 1. *)
Theorem a_replaced_person_costs_epsilon : forall K w i v j,
  1 <= K -> person K w i -> person K v j ->
  2 * K * Z.abs (i - j) + Z.abs (i * i - j * j) + K * K * Z.abs (w - v) <= 4 * K * K.
Proof.
  intros K w i v j HK [[Hw Hi] | [Hw Hi]] [[Hv Hj] | [Hv Hj]]; subst w v; try subst i; try subst j;
    repeat match goal with |- context [Z.abs ?x] =>
      let H := fresh in let E := fresh in
      destruct (Z.abs_spec x) as [[H E] | [H E]]; rewrite E; clear E end; nia.
Qed.

Theorem and_reaches_it : forall K,
  1 <= K ->
  2 * K * Z.abs (K - - K) + Z.abs (K * K - - K * - K) + K * K * Z.abs (1 - 1) = 4 * K * K.
Proof. intros K HK. replace (K - - K) with (2 * K) by ring. rewrite Z.abs_eq by lia.
  replace (K * K - - K * - K) with 0 by ring. simpl Z.abs. ring. Qed.

(* --- means over records: |y| <= u, in units of N = C K; a = u K --------------------------------- *)
Lemma signs_that_differ : forall N a b p q,
  0 <= q -> q <= p -> p <= N -> p <= a <= N -> q <= b <= N ->
  4 * N * (p + q) + (p * p - q * q) + 2 * N * (a - b) <= 8 * N * N
  /\ 4 * N * (p + q) + (p * p - q * q) + 2 * N * (b - a) <= 8 * N * N.
Proof. intros. split; nia. Qed.

(* Scales 2, 8 and 4 over epsilon: |y-z|/(2N) + |y^2-z^2|/(8N^2) + |a-b|/(4N) <= 1. *)
Theorem a_replaced_person_of_some_weight_costs_epsilon : forall N a b y z,
  0 <= a <= N -> 0 <= b <= N -> - a <= y <= a -> - b <= z <= b ->
  4 * N * Z.abs (y - z) + Z.abs (y * y - z * z) + 2 * N * Z.abs (a - b) <= 8 * N * N.
Proof.
  intros N a b y z Ha Hb Hy Hz.
  assert (H : Z.abs (y - z) <= Z.abs y + Z.abs z) by lia.
  rewrite <- (Z.abs_square y), <- (Z.abs_square z).
  assert (Hp : 0 <= Z.abs y <= a) by lia.
  assert (Hq : 0 <= Z.abs z <= b) by lia.
  generalize dependent (Z.abs (y - z)). generalize dependent (Z.abs y).
  generalize dependent (Z.abs z).
  intros q Hq p Hp d Hd.
  destruct (Z_le_gt_dec q p) as [Ho | Ho].
  - destruct (signs_that_differ N a b p q) as [H1 H2]; try lia.
    rewrite (Z.abs_eq (p * p - q * q)) by nia.
    destruct (Z.abs_spec (a - b)) as [[? E] | [? E]]; rewrite E; nia.
  - destruct (signs_that_differ N b a q p) as [H1 H2]; try lia.
    rewrite (Z.abs_neq (p * p - q * q)) by nia.
    destruct (Z.abs_spec (a - b)) as [[? E] | [? E]]; rewrite E; nia.
Qed.

(* --- one person added or removed: three cells that are not negative and add up to one at most --- *)
(* With A = K w + y, B = K w - y and M = 2 C K the cells are A (M - B), 2 A B, B (M - A) over M^2. *)
Theorem a_joining_person_costs_epsilon : forall C K w y,
  1 <= C -> 1 <= K -> 0 <= w <= C -> - (K * w) <= y <= K * w ->
  let A := K * w + y in let B := K * w - y in let M := 2 * C * K in
  0 <= A * (M - B) /\ 0 <= 2 * A * B /\ 0 <= B * (M - A) /\
  A * (M - B) + 2 * A * B + B * (M - A) <= M * M.
Proof.
  intros C K w y HC HK Hw Hy A B M.
  assert (HA : 0 <= A) by (unfold A; lia).
  assert (HB : 0 <= B) by (unfold B; lia).
  assert (Hs : A + B = 2 * (K * w)) by (unfold A, B; ring).
  assert (Hk : K * w <= K * C) by nia.
  assert (Hm : A + B <= M) by (unfold M; lia).
  repeat split; nia.
Qed.
